"""The gate replays the cluster as the lake says that it changed."""

from datetime import UTC, date, datetime, timedelta

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from pipeline.validation.contenders import ReplayContender, replay_contender
from pipeline.validation.held_out_data import HeldOutWindow, read_held_out
from pipeline.validation.replay_inputs import replay_inputs
from simulator.cluster.changes import SizeChange

DAY = timedelta(days=1)
START = datetime(2024, 3, 1, 6, tzinfo=UTC)


def job(number, submit, gpus, **columns):
    end = submit + timedelta(hours=2)
    return {
        "job_id": str(number),
        "virtual_cluster": "a",
        "gpus": gpus,
        "gpu_share": 1.0,
        "state": "COMPLETED",
        "submit_time": submit,
        "start_time": submit,
        "end_time": end,
        "duration_s": 7200.0,
        "source_file": "log.csv",
        "source_row": number,
        **columns,
    }


@pytest.fixture
def lake(tmp_path):
    lake = Lake(str(tmp_path))
    rows = [job(i, START + i * timedelta(hours=3), 8 if i % 5 else 16) for i in range(1, 30)]
    rows.append(job(99, START + 2 * DAY, 8, state="CANCELLED", start_time=None, duration_s=None))
    rows.append(job(100, START + timedelta(hours=1), 200))
    lake.write_jobs("c", pd.DataFrame(rows))
    counts = [("a", date(2024, 2, 1), 9), ("b", date(2024, 2, 1), 1), ("a", date(2024, 3, 3), 2)]
    lake.write_nodes(
        "c",
        pd.DataFrame(
            [
                {"virtual_cluster": name, "date": day, "nodes": nodes, "gpus_per_node": 8}
                for name, day, nodes in counts
            ]
        ),
    )
    return lake


@pytest.mark.slow
def test_sizes_follow_the_lake_and_no_job_is_left_behind(lake):
    window = HeldOutWindow(START, START + DAY, START + 4 * DAY)
    inputs = replay_inputs(read_held_out(Site(lake=lake.uri, cluster="c"), window), job_types="log", seed=0)
    first = START + timedelta(hours=3)
    assert inputs.scenario.cluster.virtual_clusters == {"a": 9, "b": 1}
    at_s = (datetime(2024, 3, 3, tzinfo=UTC) - first).total_seconds()
    # From the 3rd on it has 2 nodes, what its largest job needs; it keeps 2 to spare.
    assert inputs.scenario.changes == (SizeChange(at_s, "a", 4), SizeChange(at_s, "b", 0))
    share = (at_s - (DAY - timedelta(hours=3)).total_seconds()) / (3 * 86_400)
    assert inputs.mean_gpus == pytest.approx(80 * share + 32 * (1 - share))
    said = " ".join(inputs.assumptions)
    assert "change their size 2 times" in said
    assert "1 jobs are left out of the replay: bigger than virtual cluster" in said
    result = replay_contender(ReplayContender("fifo", "fifo"), inputs)
    assert len(inputs.replayed) == 30
    assert len(result.jobs) == inputs.in_window.sum() == 23, "the warm-up is not counted"
    assert result.jobs["end_time_s"].notna().all()
    # One left the log's queue without a run: it is replayed as one that waits and leaves, and does not count.
    assert "1 jobs left the log's queue without a run" in said
    assert inputs.replayed.loc[inputs.withdrawn, "job_id"].tolist() == ["99"]
    assert int(inputs.in_window.sum()) == int(inputs.judged.sum()) + 1
    assert result.jobs.loc[result.jobs["job_id"] == "99", "first_start_time_s"].isna().all()


@pytest.mark.slow
def test_a_cluster_of_one_size_has_no_changes(tmp_path):
    lake = Lake(str(tmp_path))
    lake.write_jobs("c", pd.DataFrame([job(i, START + i * timedelta(hours=3), 8) for i in range(1, 20)]))
    lake.write_nodes("c", pd.DataFrame({"virtual_cluster": ["a"], "nodes": [9], "gpus_per_node": [8]}))
    window = HeldOutWindow(START, START + DAY, START + 2 * DAY)
    inputs = replay_inputs(read_held_out(Site(lake=lake.uri, cluster="c"), window), job_types="log", seed=0)
    assert inputs.scenario.changes == ()
    assert inputs.mean_gpus == inputs.scenario.cluster.total_gpus == 72
