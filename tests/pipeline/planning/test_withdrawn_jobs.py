"""Jobs that left the queue of their log without a run are never counted as work, and their number is told."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from pipeline.studies.sweeps.spec import SweepSpec
from pipeline.studies.sweeps.sweep import plan_sweep, run_pending
from pipeline.what_if.kept import AskedWhatIf, keep_what_if

START = datetime(2024, 3, 4, tzinfo=UTC)
HOUR = timedelta(hours=1)
RAN, LEFT = 336, 112


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """Two weeks with a job of 50 min an hour, which one node carries, and every third hour one with a limit
    of an hour that was withdrawn after five.
    """
    rows = [
        {"submit": START + i * HOUR, "start": START + i * HOUR, "run_s": 3_000.0, "state": "COMPLETED"}
        for i in range(RAN)
    ]
    rows += [
        {"submit": START + 3 * i * HOUR + HOUR / 4, "start": None, "run_s": None, "state": "CANCELLED"}
        for i in range(LEFT)
    ]
    table = pd.DataFrame(rows).sort_values("submit", ignore_index=True)
    submit, start = (pd.to_datetime(table[name], utc=True) for name in ("submit", "start"))
    ran = pd.to_timedelta(table["run_s"], unit="s").fillna(5 * HOUR)
    uri = str(tmp_path / "lake")
    Lake(uri).write_jobs(
        "c",
        pd.DataFrame(
            {
                "job_id": [f"j{i}" for i in range(len(table))],
                "virtual_cluster": "vc",
                "gpus": 8,
                "gpu_share": 1.0,
                "state": table["state"],
                "submit_time": submit,
                "start_time": start,
                "end_time": submit + ran,
                "duration_s": table["run_s"],
                "time_limit_s": 3_600.0,
                "source_file": "log",
                "source_row": range(1, len(table) + 1),
            }
        ),
    )
    Lake(uri).write_nodes("c", pd.DataFrame({"virtual_cluster": ["vc"], "nodes": [3], "gpus_per_node": [8]}))
    return uri


@pytest.mark.parametrize(
    "policy", ["fifo", pytest.param("easy", marks=pytest.mark.thorough("the same plan again"))]
)
def test_a_plan_needs_no_node_for_them(lucid, tmp_path: Path, lake: str, policy: str) -> None:
    said = lucid(
        *("plan", "--cluster", "c", "--lake", lake, "--policy", policy, "--limit-s", "600"),
        *("--out", tmp_path / "plan", "--workers", "1", "--json"),
    )
    assert said.code == 0, said.err
    answer = said.json["questions"][0]
    assert answer["nodes"] == 1
    row = next(row for row in said.json["rows"] if row["nodes"] == 1)
    assert (row["jobs"], row["left_waiting"]) == (RAN, LEFT)
    assert row["would_have_started"] == LEFT, "the node is free ten minutes an hour"
    again = lucid(*row["command"].split()[1:], "--json").json[0]
    assert (again["jobs"], again["left_waiting"], again["completed_jobs"]) == (RAN, LEFT, RAN)
    assert again["utilisation_pct"] == pytest.approx(100 * RAN * 3_000 / again["makespan_s"])


def test_a_what_if_counts_those_that_ran(tmp_path: Path, lake: str) -> None:
    spec = SweepSpec().changed(
        {
            "cluster": "c",
            "lake": lake,
            "policies": ["fifo", "sjf"],
            "added_nodes": {"vc": -2},
            "keep_jobs": True,
        }
    )
    plan = plan_sweep(spec.read_inputs(), spec.runs(), str(tmp_path / "sweep"), keep_jobs=True)
    run_pending(plan)
    asked = AskedWhatIf("run", "c", "ada", "2026-11-23T04:00:00+00:00", {})
    for variant in keep_what_if(plan, asked, tmp_path / "kept")["variants"]:
        assert variant["error"] is None
        assert variant["jobs"] == RAN
        assert variant["mean_jct_s"] == pytest.approx(3_000.0)
        assert variant["left_waiting"] == LEFT
        assert variant["would_have_started"] == LEFT
