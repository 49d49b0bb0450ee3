"""Lyra's log under the rules of its comparison; and agreement with another simulator."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from parts.lending.steps.inference_lender import InferenceLender
from pipeline.replay.cluster_events import ClusterSize
from pipeline.replay.log_file import LogFile
from pipeline.replay.log_scenario import LogToReplay
from pipeline.replay.simulation import simulate_log
from simulator.scenario.rules import load_rules
from tests.reference import ROOT

JOBS = Path(__file__).parents[2] / "cluster_logs" / "data" / "lyra-csv.csv"
RULES = load_rules("lyra")


@pytest.fixture
def load(tmp_path: Path) -> str:
    """Ten inference servers: half of them needed, then all; one row is bad."""
    path = tmp_path / "load.csv"
    path.write_text("time_s,usage\n0,0.5\n300,1\n600,0.5\n900,high\n")
    return str(path)


def asked(load: str, **lender: object) -> LogToReplay:
    return LogToReplay(
        LogFile(str(JOBS), "lyra-csv"),
        ClusterSize(servers=2),
        rules=RULES,
        companions=(InferenceLender(load, **{"servers": 10, **lender}),),  # type: ignore[arg-type]
    )


def test_a_log_is_replayed_beside_the_load_and_what_is_left_out_is_said(load: str, tmp_path: Path) -> None:
    report = simulate_log(asked(load), ["lyra", "fifo"], tmp_path / "out")
    lyra, fifo = report.summaries
    assert lyra["completed_jobs"] == fifo["completed_jobs"] == 4
    assert lyra["servers_on_loan_mean"] == pytest.approx(4)  # headroom: one; the last submission is at 120 s
    assert fifo["servers_on_loan_mean"] == 0
    assert fifo["on_loan_usage_pct"] is None
    assert any("1 unreadable_number" in line and "load" in line for line in report.remarks)
    assert any("1 gpus_of_other_workers" in line for line in report.remarks)


# -- against an independent simulator ------------------------------------------------------------------------


def fortnight(
    name: str, tmp_path: Path, policy: str, **settings: object
) -> tuple[dict[str, float], pd.DataFrame]:
    """Return the summary and jobs of a fortnight beside 80 + 94 servers that agrees with the other in all."""
    data, reference = ROOT / "data" / "lyra", ROOT / "reference" / "lyra"
    asked = LogToReplay(
        LogFile(str(data / "jobs.csv.gz"), "lyra-csv"),
        ClusterSize(servers=80),
        rules=RULES,
        companions=(InferenceLender(str(data / "inference_load.csv.gz"), 94),),
    )
    (summary,) = simulate_log(asked, [policy], tmp_path, settings={policy: settings}).summaries
    with (reference / "fortnight_80_servers.csv").open() as stream:
        row = next(row for row in csv.DictReader(stream) if row["scheme"] == name)
    assert summary["mean_jct_s"] == pytest.approx(float(row["jct_mean"]), rel=1e-3)
    assert summary["mean_queuing_delay_s"] == pytest.approx(float(row["queue_mean"]), rel=0.01)
    assert summary["training_usage_pct"] == pytest.approx(100 * float(row["train_usage"]), abs=0.01)
    assert summary["all_usage_pct"] == pytest.approx(100 * float(row["overall_usage"]), abs=0.01)
    assert summary["preemptions"] == pytest.approx(int(row["preemptions"]), abs=2)
    assert (summary["reclaims"], summary["servers_reclaimed"]) == (
        int(row["reclaims"]),
        int(row["servers_reclaimed"]),
    )
    with gzip.open(
        reference / f"jobs_{'baseline_fifo' if policy == 'fifo' else 'lyra_basic'}.csv.gz"
    ) as stream:
        theirs = pd.read_csv(stream)
    ours = pd.read_csv(tmp_path / f"jobs_{policy}.csv")
    return dict(summary), ours.merge(theirs, on="job_id", suffixes=("", "_theirs"))


@pytest.mark.reference
def test_fifo_gives_each_job_the_same_start_and_end(tmp_path: Path) -> None:
    _, jobs = fortnight("baseline_fifo", tmp_path, "fifo")
    assert len(jobs) == 26_066
    assert np.allclose(jobs["first_start_time_s"], jobs["first_start_s"], atol=1e-3, rtol=0)
    assert np.allclose(jobs["end_time_s"], jobs["end_s"], atol=1e-3, rtol=0)


@pytest.mark.slow
@pytest.mark.reference
def test_lyra_with_the_papers_reclaiming_does_the_same(tmp_path: Path) -> None:
    summary, jobs = fortnight("lyra_basic", tmp_path, "lyra", reclaim="reference")
    close = (jobs["first_start_time_s"] - jobs["first_start_s"]).abs() <= 60
    assert close.mean() >= 0.999
    assert summary["on_loan_usage_pct"] == pytest.approx(25.07, abs=0.02)
    assert summary["collateral_damage_pct"] == pytest.approx(0.44, abs=0.02)
