"""Characterisations of public logs against what was published, and against counts made apart from it."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from parts.characterisation.characterise import Characterisation, characterise
from parts.characterisation.inputs import LogFiles, View, read_log_files
from parts.characterisation.tests.small_log import job, observed
from tests.command_line import Lucid
from tests.reference import ROOT

pytestmark = pytest.mark.reference
LOGS, EXPECTED = ROOT / "data", ROOT / "reference" / "helios"
VENUS = LOGS / "venus" / "cluster_throughput.csv.gz"


def of(files: LogFiles, view: View | None = None) -> Characterisation:
    return characterise(read_log_files(files, view or View()))


def known(name: str) -> Any:
    return json.loads((EXPECTED / name).read_text())


def published(figure: str, series: str) -> "pd.Series[float]":
    rows = pd.read_csv(EXPECTED / "published_figures.csv", dtype={"figure": str})
    chosen = rows[(rows["figure"] == figure) & (rows["series"] == series)]
    return chosen.set_index("x")["y"]


def published_series(figure: str) -> set[str]:
    rows = pd.read_csv(EXPECTED / "published_figures.csv", dtype={"figure": str})
    return set(rows.loc[rows["figure"] == figure, "series"])


def test_submissions_of_venus_by_hour_of_day_and_month() -> None:
    measured = of(LogFiles(str(VENUS), "helios-throughput"))
    counted, by_hour = known("venus_submissions.json"), measured.figures["fig2b"]
    for column, name in (("gpu_jobs_per_h", "submissions"), ("gpus_per_h", "gpus_submitted")):
        assert by_hour[column].to_numpy() == pytest.approx(counted[f"{name}_per_hour_of_day"], abs=0.01)
    assert measured.figures["fig3"]["gpu_jobs"].tolist() == list(counted["monthly_gpu_jobs"].values())
    assert by_hour["gpu_jobs_per_h"].to_numpy() == pytest.approx(
        published("2b", "Venus").to_numpy(), abs=0.01
    )
    assert measured.implications[0].holds is True
    assert measured.numbers["submissions.highest_to_lowest"] == pytest.approx(9.3, abs=0.1)


def test_virtual_clusters_of_earth_in_may() -> None:
    folder = LOGS / "helios"
    measured = of(
        LogFiles(
            nodes=str(folder / "earth_vc_gpus_by_day.csv"),
            sequence=str(folder / "earth_may_running_gpus.csv.gz"),
            waiting_sequence=str(folder / "earth_may_pending_gpus.csv.gz"),
        ),
        View(time_zone="Asia/Shanghai"),
    )
    mine = measured.tables["by_virtual_cluster"]
    counted = pd.read_csv(EXPECTED / "earth_may_vcs.csv", index_col="vc").loc[mine.index]
    for column, name in (("q1_pct", "q1"), ("median_pct", "median"), ("q3_pct", "q3"), ("mean_pct", "mean")):
        assert mine[column].to_numpy() == pytest.approx(counted[name].to_numpy(), abs=0.1)
    assert mine["gpus"].tolist() == counted["gpus"].tolist()
    assert mine["mean_waiting_gpus"].to_numpy() == pytest.approx(counted["mean_pending_gpus"], abs=0.001)
    hourly = pd.read_csv(EXPECTED / "earth_may_hourly_utilisation.csv")["utilisation"]
    assert measured.figures["fig2a"]["utilisation_pct"].to_numpy() == pytest.approx(hourly, abs=0.01)
    ten = published_series("4")
    assert set(measured.figures["fig4"].index) == ten


def test_philly_in_october_and_november() -> None:
    folder = LOGS / "philly"
    measured = of(
        LogFiles(
            str(folder / "philly_jobs.csv.gz"),
            "philly-csv",
            nodes=str(folder / "philly_vc_nodes.csv"),
            sequence=str(folder / "philly_node_sequence.csv.gz"),
        ),
        View(datetime(2017, 10, 1), datetime(2017, 12, 1)),  # noqa: DTZ001  on the log's clock
    )
    counted, numbers, figures = known("philly_oct_nov.json"), measured.numbers, measured.figures
    assert numbers["submissions.gpu_jobs"] == pytest.approx(counted["jobs"])
    for key, name in {
        "sizes.mean_gpus": "mean_gpus",
        "sizes.max_gpus": "max_gpus",
        "durations.mean_s": "mean_duration_s",
        "durations.median_s": "median_duration_s",
        "durations.max_s": "max_duration_s",
        "gpu_time.total_s": "gpu_time_s",
        "virtual_clusters.gini_gpu_time": "gini_gpu_time_over_vcs",
    }.items():
        assert numbers[key] == pytest.approx(counted[name], rel=1e-3), key
    for figure, column, name in (
        ("fig1a", "gpu_jobs_pct", "duration_cdf_pct"),
        ("fig6a", "gpu_jobs_pct", "size_cdf_jobs_pct"),
        ("fig6b", "gpu_time_pct", "size_cdf_gpu_time_pct"),
    ):
        values = list(counted[name].values())  # told to four decimals
        assert figures[figure][column].to_numpy() == pytest.approx(values, rel=1e-3, abs=6e-5), figure
    per_hour = counted["submissions_per_hour_of_day"]
    assert figures["fig2b"]["gpu_jobs_per_h"].to_numpy() == pytest.approx(per_hour, rel=1e-3)
    by_month = counted["monthly_jobs"]
    assert figures["fig3"]["single_gpu_jobs"].tolist() == [
        by_month[month]["single"] for month in ("10", "11")
    ]
    assert figures["fig3"]["multi_gpu_jobs"].tolist() == [by_month[month]["multi"] for month in ("10", "11")]
    table = measured.tables["by_virtual_cluster"]
    for name, facts in counted["vcs"].items():
        row = table.loc[name]
        assert row["gpu_jobs"] == facts["jobs"]
        for fact in ("gpu_time_s", "mean_gpus", "mean_duration_s"):
            assert row[fact] == pytest.approx(facts[fact], rel=1e-3), (name, fact)
    nodes = counted["node_utilisation_pct"]
    by_hour = figures["fig2a"]["utilisation_pct"].to_numpy()
    assert by_hour == pytest.approx(nodes["by_hour_of_day"], rel=1e-3)
    for key, value in {
        "minutes": nodes["minutes"],
        "mean_pct": nodes["mean"],
        "std_of_hourly_pct": nodes["std_of_hourly"],
        "zero_minutes": nodes["zero_minutes"],
        **{f"p{float(point) * 100:02.0f}_pct": value for point, value in nodes["quantiles"].items()},
    }.items():
        assert numbers[f"utilisation.{key}"] == pytest.approx(value, rel=1e-3), key


def test_users_of_nasa() -> None:
    log = LOGS / "swf" / "NASA-iPSC-1993-3.1-cln.swf.gz"
    measured = of(LogFiles(str(log), "swf"))
    counted, numbers = known("nasa_users.json"), measured.numbers
    assert numbers["users.users"] == counted["users"]
    assert numbers["users.gini_gpu_time"] == pytest.approx(counted["gini_proc_time_over_users"], rel=1e-3)
    for top, share in counted["top_users_share_pct"].items():
        assert numbers[f"users.top_{top}_pct_gpu_time_pct"] == pytest.approx(share, rel=1e-3), top
    assert numbers["durations.mean_s"] == pytest.approx(counted["mean_run_s"], rel=1e-3)
    assert numbers["durations.median_s"] == counted["median_run_s"]
    values = list(counted["duration_cdf_pct"].values())
    assert measured.figures["fig1a"]["gpu_jobs_pct"].to_numpy() == pytest.approx(values, rel=1e-3)
    for figure, column, name in (
        ("fig6a", "gpu_jobs_pct", "size_cdf_jobs_pct"),
        ("fig6b", "gpu_time_pct", "size_cdf_proc_time_pct"),
    ):
        shares = measured.figures[figure][column]
        for size, share in counted[name].items():
            told = shares["all"] if size == "128" else shares[size]
            assert told == pytest.approx(share, rel=1e-3), (figure, size)
    assert "the log has no final states" in {each.reason for each in measured.dropped}


def test_states_and_sizes_of_helios_from_its_published_summary() -> None:
    """A thousandth of the four clusters' jobs, with the summary's states and GPU time, by our formulas."""
    summary = pd.read_csv(EXPECTED / "published_cluster_summary.csv", index_col="id").drop("total")
    jobs = []
    for _, cluster in summary.iterrows():
        for state, short in (("COMPLETED", "complete"), ("CANCELLED", "cancel"), ("FAILED", "fail")):
            for kind in ("gpu", "cpu"):
                count = round(cluster[f"{kind}_job_num"] * cluster[f"{short}_rate_{kind}"] / 100)
                run_s = cluster[f"{short}_gpu_time"] / 100 / max(count, 1)
                gpus = 1 if kind == "gpu" else 0
                jobs += [job(i, 0, run_s if gpus else 1.0, gpus=gpus, state=state) for i in range(count)]
    measured = characterise(observed(jobs))
    for kind, series in (("gpu", "GPU"), ("cpu", "CPU")):
        shares = measured.figures["fig7a"][f"{kind}_jobs_pct"].to_numpy()
        assert shares == pytest.approx(published("7a", series).to_numpy(), abs=0.1)
    by_state = measured.figures["fig1b"]["gpu_time_pct"].to_numpy()
    assert by_state == pytest.approx(published("1b", "Helios").to_numpy(), abs=0.1)
    assert np.isclose(measured.tables["table1"]["jobs"].iloc[0] * 100, 3_362_981, rtol=1e-3)
    assert np.isclose(measured.tables["table2"]["gpu_jobs"].iloc[0] * 100, 1_580_464, rtol=1e-3)


def test_the_command_says_what_the_contract_promises(lucid: Lucid, tmp_path: Path) -> None:
    jobs, nodes = (LOGS / "philly" / name for name in ("philly_jobs.csv.gz", "philly_vc_nodes.csv"))
    files = ("--format", "philly-csv", "--jobs", jobs, "--nodes", nodes)
    days = ("--start", "2017-10-05", "--end", "2017-10-05T23:59:00", "--utilisation", "inclusive")
    document = lucid("characterise", *files, *days, "--out", tmp_path / "character", "--json").json
    assert set(document) >= {"figures", "tables", "implications", "dropped"}
    assert len(document["implications"]) == 7
