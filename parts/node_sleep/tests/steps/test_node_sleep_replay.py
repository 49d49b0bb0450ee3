"""Nodes that sleep, from a shell: `lucid simulate` and `lucid sweep`, on small logs and on Philly's."""

import csv
import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from foundation.errors import BadInputError, UnknownNameError
from parts.node_sleep.steps.fitted_forecast import LEAST_DAYS
from parts.node_sleep.steps.learning_forecaster import LearningForecaster
from pipeline.studies.sweeps.runs import SweepRun, expand, run_id, tidy_table
from pipeline.studies.sweeps.spec import SweepSpec
from tests.reference import ROOT


def sparse_log(path: Path, jobs: int = 60) -> None:
    """One job in a quarter of an hour or so, of up to two nodes and up to forty minutes."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["job_id", "virtual_cluster", "gpus", "submit_time", "duration_s", "estimated_duration_s"]
        )
        for i in range(jobs):
            submit = (start + timedelta(seconds=700 * i + 97 * (i % 9))).strftime("%Y-%m-%d %H:%M:%S")
            rows.writerow([f"j{i}", f"vc{i % 2}", 1 + 3 * i % 16, submit, 300 + 211 * (i % 11), 600])


def words(folder: Path, command: str, *more: object) -> list[str]:
    log = folder / "log.csv"
    if not log.exists():
        sparse_log(log)
        (folder / "nodes.csv").write_text("virtual_cluster,nodes\nvc0,4\nvc1,5\n")
    first = [command, "--jobs", log, "--format", "reference-csv", "--nodes", folder / "nodes.csv"]
    return [str(word) for word in [*first, "--out", folder / "out", *more]]


def test_a_replay_says_what_slept_and_what_queuing_that_added(lucid, tmp_path):
    asleep = ("--node-sleep", "buffer_nodes=0", "keep_bins=0", "boot_s=600")
    said = lucid(*words(tmp_path, "simulate", "--policy", "fifo", *asleep, "--timeline", "--plot", "--json"))
    assert said.code == 0, said.err
    (summary,) = said.json
    assert summary["nodes_asleep_mean"] > 0
    awake = lucid(*words(tmp_path, "simulate", "--policy", "fifo", "--json", "--no-plot")).json[0]
    assert "nodes_asleep_mean" not in awake
    added_s = summary["mean_queuing_delay_s"] - awake["mean_queuing_delay_s"]
    assert summary["added_queuing_delay_s"] == pytest.approx(added_s)
    with (tmp_path / "out" / "nodes_fifo.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(sum(float(row[state]) for state in ("awake", "booting", "asleep")) == 9 for row in rows)
    assert (tmp_path / "out" / "nodes.png").stat().st_size > 5_000
    with gzip.open(tmp_path / "out" / "timeline_fifo.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    counted = [event["args"] for event in events if event["ph"] == "C" and event["name"] == "nodes"]
    assert len(counted) == len(rows)
    assert counted[0] == {"awake": 9, "booting": 0, "asleep": 0}
    people = lucid(*words(tmp_path, "simulate", "--policy", "fifo", *asleep, "--no-plot"))
    assert "Nodes that sleep" in people.out


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("buffer_nodes", "is not NAME=VALUE"),
        ("bufer_nodes=1", "buffer_nodes"),
        ("buffer_nodes=many", "buffer_nodes is 'many'"),
        ("control=best", "forecast"),
        ("boot_failure_share=2", "boot_failure_share is 2"),
    ],
)
def test_settings_that_cannot_be_are_named_before_the_log_is_read(lucid, tmp_path, option, named):
    said = lucid(*words(tmp_path, "simulate", "--policy", "fifo", "--node-sleep", option))
    assert said.code != 0
    assert named in " ".join(said.err.replace("│", " ").split())
    assert not (tmp_path / "out").exists()


def test_a_sweep_has_every_size_of_the_buffer_beside_all_nodes_awake(lucid, tmp_path):
    varied = ("--policy", "fifo", "sjf", "--node-sleep", "buffer_nodes=0,4", "keep_bins=0", "--workers", 1)
    said = lucid(*words(tmp_path, "sweep", *varied, "--json"))
    assert said.code == 0, said.err
    rows = said.json["rows"]
    assert [(row["policy"], row["node_sleep.buffer_nodes"]) for row in rows] == [
        (policy, nodes) for policy in ("fifo", "sjf") for nodes in (None, 0, 4)
    ]
    awake, none, four = rows[:3]
    assert awake["added_queuing_delay_s"] == 0
    assert awake["nodes_asleep_mean"] is None
    assert none["nodes_asleep_mean"] > four["nodes_asleep_mean"]
    assert none["added_queuing_delay_s"] == none["mean_queuing_delay_s"] - awake["mean_queuing_delay_s"]


def test_a_sweep_compares_controls(lucid, tmp_path):
    varied = ("--policy", "fifo", "--node-sleep", "control=buffer,forecast", "buffer_nodes=0", "--workers", 1)
    said = lucid(*words(tmp_path, "sweep", *varied, "--json"))
    assert said.code == 0, said.err
    awake, buffer, forecast = said.json["rows"]
    assert awake["node_sleep.control"] is None
    assert (buffer["node_sleep.control"], forecast["node_sleep.control"]) == ("buffer", "forecast")
    assert buffer["nodes_asleep_mean"] >= forecast["nodes_asleep_mean"] > 0  # which asks the past first


def test_runs_without_sleep_are_those_of_before():
    plain = SweepRun("fifo")
    assert "node_sleep" not in plain.to_dict()
    runs = expand(
        ["fifo"],
        companions={
            "node_sleep": {"control": ["off", "buffer"], "buffer_nodes": [1, 2], "boot_s": [60.0, 60]}
        },
    )
    assert [run.companions.get("node_sleep", {}) for run in runs] == [
        {},
        {"control": "buffer", "buffer_nodes": 1, "boot_s": 60.0},
        {"control": "buffer", "buffer_nodes": 2, "boot_s": 60.0},
    ]
    assert SweepRun.from_dict(runs[1].to_dict()) == runs[1]
    assert len({run_id(run, "x") for run in runs}) == 3
    table = tidy_table({run_id(run, "x"): run for run in runs}, {})
    assert table["added_queuing_delay_s"].isna().all()


def test_a_file_names_the_settings(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text('policies = ["fifo"]\n[node_sleep]\nbuffer_nodes = [1, 3]\nboot_s = 300\n')
    assert len(SweepSpec.from_toml(path).runs()) == 3
    path.write_text('policies = ["fifo"]\nnode_sleep = 3\n')
    with pytest.raises(BadInputError, match=r"node_sleep is 3.*node_sleep\.NAME = \[values\]"):
        SweepSpec.from_toml(path)
    path.write_text('policies = ["fifo"]\n[node_sleep]\nbuffer = 3\n')
    with pytest.raises(UnknownNameError, match="buffer_nodes"):
        SweepSpec.from_toml(path).runs()


@pytest.mark.slow
def test_a_forecast_learns_from_the_bins_of_its_own_replay():
    days, bins = LEAST_DAYS + 8, 144 * (LEAST_DAYS + 8)
    # What nothing foretells ends the learning early: a plain wave is learned ever more finely.
    unforeseen = np.repeat(np.random.default_rng(0).normal(0, 8, 4 * days), 36)
    busy = np.round(60 + 30 * np.sin(2 * np.pi * np.arange(bins) / 144) + unforeseen)
    forecaster = LearningForecaster(near_bins=18)

    def ahead(bins, then=busy):
        forecast = forecaster.forecast(then[:bins], (bins - 1) * 600.0)
        return forecast.near_mean, forecast.far_mean

    early = LEAST_DAYS * 144 - 1
    assert ahead(early) == (busy[early - 1], busy[early - 1])  # too little to learn from
    at = (LEAST_DAYS + 6) * 144 + 40
    moments = range(at - 144, at)
    truth = np.array([busy[moment : moment + 18].mean() for moment in moments])
    learned = np.array([ahead(moment)[0] for moment in moments])
    newest = busy[at - 145 : at - 1]
    assert np.abs(learned - truth).mean() < 0.6 * np.abs(newest - truth).mean()
    changed = busy.copy()
    changed[at:] = 0
    assert ahead(at, changed) == ahead(at)


@pytest.mark.reference
def test_on_two_days_of_philly_a_larger_buffer_wakes_less_and_delays_less(lucid, tmp_path):
    philly = ROOT / "data" / "philly"
    said = lucid(
        *("sweep", "--jobs", philly / "philly_jobs.csv.gz", "--format", "philly-csv"),
        *("--nodes", philly / "philly_vc_nodes.csv", "--start", "2017-10-09", "--end", "2017-10-11"),
        *("--node-scale", "0.25", "--policy", "fifo", "--node-sleep", "buffer_nodes=0,10"),
        *("--out", tmp_path / "out", "--workers", "1", "--json"),
    )
    assert said.code == 0, said.err
    awake, none, ten = said.json["rows"]
    assert none["completed_jobs"] == ten["completed_jobs"] == awake["completed_jobs"]
    assert none["nodes_asleep_mean"] > ten["nodes_asleep_mean"] > 0
    assert none["wake_ups"] > ten["wake_ups"]
    assert none["node_minutes_short"] > ten["node_minutes_short"]
