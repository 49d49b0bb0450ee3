"""What a replay makes of metrics: jobs behave as they were measured, predictions go by what was known."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from live_scheduler.deciding.live_policies import PredictedPairs
from lucid_models.training_data import read_training_jobs
from pipeline.profiling.profile_store import write_profile_set
from pipeline.validation.contenders import sharing_scores
from pipeline.validation.held_out_data import HeldOutWindow, read_held_out
from pipeline.validation.replay_inputs import ReplayInputs, replay_inputs
from profiler_jobs.profile_table import ProfileSet
from tests.fixtures import small_profiles

START = datetime(2024, 3, 1, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two programs in turn, every three hours a job of two hours."""
    lake = Lake(str(tmp_path))
    submit = pd.Series([pd.Timestamp(START + 3 * i * HOUR) for i in range(40)])
    lake.write_jobs(
        "c",
        pd.DataFrame(
            {
                "job_id": [f"j{i}" for i in range(40)],
                "virtual_cluster": "a",
                "user": "u",
                "name": [f"{'train' if i % 2 else 'eval'}_{i}" for i in range(40)],
                "gpus": 1,
                "gpu_share": 1.0,
                "state": "COMPLETED",
                "submit_time": submit,
                "start_time": submit,
                "end_time": submit + pd.Timedelta(hours=2),
                "duration_s": 7_200.0,
                "source_file": "log.csv",
                "source_row": range(1, 41),
            }
        ),
    )
    lake.write_nodes("c", pd.DataFrame({"virtual_cluster": ["a"], "nodes": [2], "gpus_per_node": [4]}))
    solo, pairs = small_profiles()
    write_profile_set(Site(lake=lake.uri, cluster="c"), ProfileSet(solo, pairs, out_of_memory=pd.DataFrame()))
    return lake


def measure(lake: Lake, numbers: list[int], **changes: Any) -> None:
    """Job i needs 2 i % of its GPU, known when it ends."""
    jobs = lake.read_jobs("c").set_index("job_id").loc[[f"j{i}" for i in numbers]].reset_index()
    util = np.array([2.0 * i for i in numbers])
    lake.write_job_metrics(
        "c",
        pd.DataFrame(
            {
                "job_id": jobs["job_id"],
                "submit_time": jobs["submit_time"],
                "user": jobs["user"],
                "name": jobs["name"],
                "gpu_util_pct": util,
                "gpu_mem_util_pct": util / 2,
                "gpu_mem_mib": 1_000 + util,
                "observed_gpu_s": 7_000.0,
                "samples": 200,
                "gpus_seen": 1,
                "origin": "running",
                "known_time": jobs["end_time"],
                "source": "test",
            }
        ).assign(**changes),
    )


def replay(lake: Lake) -> ReplayInputs:
    window = HeldOutWindow(START, START + 60 * HOUR, START + 200 * HOUR)
    return replay_inputs(read_held_out(Site(lake=lake.uri, cluster="c"), window), job_types="drawn", seed=0)


class Recording:
    """A packing model that scores by utilisation and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def predict(self, util: Any, mem_util: Any, mem: Any, amp: Any) -> Any:
        self.asked = list(util)
        return np.minimum(np.asarray(util) // 30, 2).astype(int)

    def predict_one(self, first: Any, second: Any) -> tuple[float, float]:
        return first[0], second[0]


def test_truth_is_measured_and_belief_was_known(lake: Lake) -> None:
    measure(lake, list(range(30)))
    inputs = replay(lake)
    profiles = dict(zip(inputs.replayed["job_id"], inputs.profiles, strict=True))
    for i in range(30):
        profile = profiles[f"j{i}"]
        assert profile is not None
        assert profile.gpu_util_pct == 2.0 * i
        # j0 and j1 are the first of their kind; the others go by the one before, of the same family.
        assert profile.believed == (None if i < 2 else (2.0 * (i - 2), i - 2.0, 1_000 + 2.0 * (i - 2)))
    # Of those without measurements, what was known is the best that can be said.
    last = profiles["j39"]
    assert last is not None
    assert last.gpu_util_pct == 58.0
    packing: Any = Recording()
    sharing_scores(packing, inputs)
    assert packing.asked[10] == 2.0 * 8
    pairs = PredictedPairs(packing)
    assert pairs.speeds(profiles["j10"], profiles["j11"])[1] == pytest.approx(2 * 16 - 18)
    said = " ".join(inputs.assumptions)
    assert "30 of 40 jobs were measured while they ran" in said
    assert "38 jobs the metrics of earlier jobs" in said
    assert "drawn" not in said


def test_what_became_known_later_is_not_believed(lake: Lake) -> None:
    measure(lake, list(range(30)))
    before = replay(lake)
    jobs = lake.read_jobs("c")
    now = jobs["submit_time"].iloc[20]
    late = [i for i in range(30) if jobs["end_time"].iloc[i] > now]
    measure(lake, late, gpu_util_pct=99.0, observed_gpu_s=7_100.0)
    after = replay(lake)
    for one, other, submitted in zip(before.profiles, after.profiles, jobs["submit_time"], strict=True):
        assert one is not None
        assert other is not None
        if submitted <= now:
            assert one.believed == other.believed
    assert any(a != b for a, b in zip(before.profiles, after.profiles, strict=True))


def test_without_metrics_the_replay_is_as_it_was(lake: Lake) -> None:
    inputs = replay(lake)
    assert all(profile is not None and profile.believed is None for profile in inputs.profiles)
    said = " ".join(inputs.assumptions)
    assert "What 40 of 40 jobs run is not in the log" in said
    assert "measured while" not in said


def test_training_reads_what_was_known(lake: Lake) -> None:
    plain = read_training_jobs(lake.uri, "c", None, max_jobs=1_000)
    assert plain.table["gpu_util_pct"].isna().all()
    measure(lake, list(range(30)))
    filled = read_training_jobs(lake.uri, "c", None, max_jobs=1_000)
    assert filled.table["gpu_util_pct"].isna().sum() == 2
    assert filled.table["gpu_util_pct"].iloc[2:32].tolist() == [2.0 * i for i in range(30)]
    assert filled.dataset.digest != plain.dataset.digest
    # Read as of an earlier moment, a table holds what the later one says of the same jobs.
    until = filled.table["submit_time"].iloc[20].to_pydatetime()
    cut = read_training_jobs(lake.uri, "c", until, max_jobs=1_000)
    names = ["gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib"]
    pd.testing.assert_frame_equal(cut.table[names], filled.table[names].iloc[:20])
