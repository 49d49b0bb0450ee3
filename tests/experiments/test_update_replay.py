"""What updating buys: a log that changes rewards it, a steady one with live statistics does not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.updates.update_replay import (
    ORACLE,
    Replay,
    check_intervals,
    replay_throughput_updates,
    replay_updates,
)
from foundation.errors import BadInputError, UnknownNameError
from simulator.cluster.spec import ClusterSpec
from tests.fixtures import small_throughput
from tests.pipeline.monitoring.watched_cluster import DURATION, THROUGHPUT

pytestmark = pytest.mark.slow

DAYS, CHANGE_DAY = 28, 14
CLUSTER = ClusterSpec.of_gpus(8, virtual_cluster="vc")


def make_log(changing: bool, seed: int = 0) -> pd.DataFrame:
    """Eight users with their own run times over four weeks; in a changing log they swap them halfway."""
    rng = np.random.default_rng(seed)
    rows = 80 * DAYS
    user = rng.integers(0, 8, rows)
    day = np.sort(rng.uniform(0, DAYS, rows))
    habit = np.where(changing & (day > CHANGE_DAY), 7 - user, user)
    duration = np.round(np.exp(3.5 + 0.7 * habit + rng.normal(0, 0.4, rows)))
    submit = pd.Timestamp("2020-04-01", tz="UTC") + pd.to_timedelta((day * 86_400).round(), unit="s")
    end = submit + pd.to_timedelta(duration, unit="s")
    return pd.DataFrame(
        {
            "job_id": [f"j{n}" for n in range(rows)],
            "virtual_cluster": "vc",
            "user": [f"u{u}" for u in user],
            "name": [f"train_{u}" for u in user],
            "gpus": rng.choice([1, 2, 4], rows).astype("int32"),
            "gpu_share": 1.0,
            "cpus": None,
            "state": "COMPLETED",
            "submit_time": submit,
            "start_time": submit,
            "end_time": end,
            "duration_s": duration,
            "queuing_delay_s": 0.0,
            "estimated_duration_s": np.nan,
            "order_in_vc": None,
            "job_type": None,
        }
    )


@pytest.fixture(scope="module")
def changed() -> Replay:
    return replay_updates(
        make_log(changing=True),
        intervals=["weekly"],
        training_days=7,
        settings=DURATION,
        cluster=CLUSTER,
    )


def figures(replay: Replay, name: str) -> dict[tuple[str, str], float]:
    return {(row["interval"], row["statistics"]): row.get(name) for row in replay.rows}


def test_a_log_that_changes_rewards_updates(changed: Replay) -> None:
    error = figures(changed, "mae_log10")
    assert error["weekly", "frozen"] < 0.9 * error["never", "frozen"]
    assert error["never", "live"] < 0.7 * error["never", "frozen"]
    assert [row["fits"] for row in changed.rows] == [1, 3, 1, 3, 0]


def test_the_error_is_told_week_by_week(changed: Replay) -> None:
    weeks = {
        (row["week_of"], row["interval"], row["statistics"]): row["mae_log10"] for row in changed.over_time
    }
    assert len(weeks) == 3 * 4
    first = "2020-04-08"
    # In the first week both have the same model; in the last one only the static one is out of date.
    assert weeks[first, "never", "frozen"] == weeks[first, "weekly", "frozen"]
    last = "2020-04-22"
    assert weeks[last, "weekly", "frozen"] < 0.5 * weeks[last, "never", "frozen"]


def test_the_queue_is_simulated_beside_the_truth(changed: Replay) -> None:
    queue = figures(changed, "mean_queuing_delay_s")
    change = figures(changed, "queue_change_pct")
    assert change["never", "frozen"] == 0
    assert queue[ORACLE, ""] < queue["never", "frozen"]
    assert change["weekly", "frozen"] == pytest.approx(
        100 * (queue["weekly", "frozen"] / queue["never", "frozen"] - 1), abs=1e-6
    )
    for row in changed.rows[1:]:
        assert row["queue_change_low_pct"] <= row["queue_change_pct"] <= row["queue_change_high_pct"]


def test_a_steady_log_with_live_statistics_gains_nothing() -> None:
    """The honest result: what live statistics know, retraining does not add to."""
    steady = replay_updates(
        make_log(changing=False), intervals=["weekly"], training_days=7, settings=DURATION
    )
    error = figures(steady, "mae_log10")
    assert error["weekly", "live"] == pytest.approx(error["never", "live"], rel=0.1)
    assert "mean_queuing_delay_s" not in steady.rows[0]
    assert any("nothing was simulated" in remark for remark in steady.remarks)


def test_intervals_are_ordered_named_and_fit_the_log() -> None:
    assert check_intervals(["daily", "weekly"]) == ["never", "weekly", "daily"]
    with pytest.raises(UnknownNameError, match="hourly"):
        check_intervals(["hourly"])
    with pytest.raises(BadInputError, match="Choose --train-days"):
        replay_updates(make_log(changing=False), training_days=60)


def test_a_throughput_that_changes_rewards_updates() -> None:
    """Ten times the load from a day on, more than a static model has ever seen."""
    table = small_throughput(144 * 24)
    busy = np.where(table.index >= 144 * 12, 10, 1) * table["submitted_gpu_jobs"]
    table["submitted_gpu_jobs"], table["submitted_gpus"] = busy, 2 * busy
    rows = replay_throughput_updates(table, intervals=["weekly"], test_days=12, settings=THROUGHPUT)
    error = {(row["series"], row["interval"]): row["mae"] for row in rows}
    assert [row["fits"] for row in rows] == [1, 2, 1, 2]
    assert error["jobs", "weekly"] < 0.9 * error["jobs", "never"]
    with pytest.raises(BadInputError, match="less than two days"):
        replay_throughput_updates(table, test_days=23, settings=THROUGHPUT)


def test_the_command_writes_tables_and_a_plot(tmp_path: Path, lucid) -> None:
    log = tmp_path / "log.csv"
    jobs = make_log(changing=True)
    stated = jobs.rename(columns={"submit_time": "at"}).assign(
        submit_time=jobs["submit_time"].dt.strftime("%Y-%m-%d %H:%M:%S"), estimated_duration_s=60
    )
    columns = ["job_id", "virtual_cluster", "gpus", "submit_time", "duration_s", "estimated_duration_s"]
    stated[columns].to_csv(log, index=False)
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("virtual_cluster,nodes\nvc,1\n")
    words = ("replay-updates", "--format", "reference-csv", "--input", log, "--train-days", "14")
    said = lucid(*words, "--nodes", nodes, "--interval", "weekly", "--out", tmp_path / "out", "--json")
    assert said.code == 0, said.err
    assert [row["interval"] for row in said.json["updates"]] == ["never", "weekly", "never", "weekly", ORACLE]
    assert {Path(file).name for file in said.json["files"]} == {
        *("updates.json", "updates.csv", "over_time.csv", "updates.md", "updates.png")
    }
    assert "| never" in (tmp_path / "out" / "updates.md").read_text()
    assert (tmp_path / "out" / "updates.png").read_bytes().startswith(b"\x89PNG")
    refused = lucid("replay-updates", "--interval", "weekly")
    assert refused.code == 1
    assert "The log is not clear" in refused.err
