"""Every replay begins with the jobs from before its days, and counts none of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.site import Site
from pipeline.replay.cluster_events import ClusterEvents
from pipeline.replay.log_file import read_lake_jobs
from pipeline.replay.warm_up import WARM_UP_DAYS, there_at, warm_jobs, warm_up_start
from pipeline.studies.sweeps.inputs import read_lake
from pipeline.studies.sweeps.run import RunReplayer
from pipeline.studies.sweeps.runs import SweepRun
from pipeline.validation.contenders import ReplayContender, replay_contender
from pipeline.validation.held_out_data import held_out_window, read_held_out
from pipeline.validation.replay_inputs import replay_inputs
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.job_columns import ARRIVAL
from simulator.workload.workload import Workload
from tests.small_cluster import CLUSTER, HOLD_OUT_DAYS, World

DAY = timedelta(days=1)
START = datetime(2024, 3, 10, tzinfo=UTC)
SUBMITTED = "job_id,virtual_cluster,gpus,submit_time,duration_s,estimated_duration_s"


def job_table(*rows: tuple[str, float, float | None, float]) -> pd.DataFrame:
    """Rows of (id, days of submission and of start before START, run time in days)."""
    at = [
        (START - submit * DAY, None if start is None else START - start * DAY) for _, submit, start, _ in rows
    ]
    starts = pd.to_datetime(pd.Series([start for _, start in at]), utc=True)
    lasting = pd.to_timedelta([days for *_, days in rows], unit="D")
    return pd.DataFrame(
        {
            "job_id": [name for name, *_ in rows],
            "submit_time": pd.to_datetime([submit for submit, _ in at], utc=True),
            "start_time": starts,
            "end_time": starts + lasting,
            "duration_s": lasting.total_seconds(),
        }
    )


def test_what_ran_or_waited_when_the_warm_up_begins_is_there() -> None:
    jobs = job_table(
        ("over", 9, 9, 6.5),
        ("runs", 9, 8, 7),
        ("waits", 4, 1, 0.5),
        ("never started, left", 9, None, 6),
        ("never started", 9, None, 8),
        ("warm-up", 1, 1, 3),
        ("counts", -1, -1, 1),
        ("too late", -3, -3, 1),
    )
    assert warm_up_start(jobs, START, 1) == START - DAY
    warm = warm_jobs(jobs, START, START + 2 * DAY, warm_up_from=START - 2 * DAY)
    assert warm.jobs["job_id"].tolist() == ["runs", "waits", "never started", "warm-up", "counts"]
    assert warm.counted.tolist() == [False, False, False, False, True]
    arrivals = dict(zip(warm.jobs["job_id"], warm.jobs[ARRIVAL], strict=True))
    assert arrivals["runs"] == START - 8 * DAY, "it comes when it began to run"
    assert arrivals["waits"] == START - 2 * DAY, "it waits when the warm-up begins"
    assert arrivals["never started"] == START - 2 * DAY
    assert pd.isna(arrivals["warm-up"])
    assert warm.earlier["job_id"].tolist() == ["over", "never started, left"]
    assert warm.counted_from == START
    assert warm.remark is not None
    assert "4 jobs" in warm.remark
    assert "3 of them had been submitted before" in warm.remark
    assert there_at(jobs, START - 2 * DAY).sum() == 3
    without = jobs.assign(start_time=pd.NaT, end_time=pd.NaT)
    there = without[there_at(without, START - 2 * DAY)]
    assert there["job_id"].tolist() == ["never started"], "without starts jobs begin when they are submitted"


def test_a_cold_start_takes_none_and_a_log_without_earlier_jobs_says_so() -> None:
    jobs = job_table(("before", 1, 1, 3), ("counts", -1, -1, 1))
    cold = warm_jobs(jobs, START, warm_up_from=START)
    assert (cold.jobs["job_id"].tolist(), cold.counted_from) == (["counts"], None)
    assert cold.remark == "The cluster starts empty: the jobs before those that count are left out."
    first = warm_jobs(jobs, START - 5 * DAY, warm_up_from=START - 6 * DAY)
    assert (len(first.jobs), first.counted_from) == (2, None)
    assert first.remark == "The log has no job before those that count: the cluster starts empty."


jobs_of_days = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 4), st.integers(1, 30)), min_size=2, max_size=30
)


@given(jobs_of_days, st.integers(0, 40), st.sampled_from(["fifo", "sjf", "srtf", "tiresias"]))
def test_the_counted_jobs_fare_as_in_a_replay_that_counts_all(
    rows: list[tuple[int, int, int]], from_s: int, policy: str
) -> None:
    """Nothing but what is counted changes: not one start, wait or end."""
    jobs = tuple(
        Job(str(i), "vc", "u", gpus, float(at), float(lasts))
        for i, (at, gpus, lasts) in enumerate(sorted(rows))
    )
    scenario = Scenario(Workload(jobs, {}), ClusterSpec({"vc": 1}, 4))
    whole = simulate(scenario, policy)
    counted = simulate(replace(scenario, counted_from_s=float(from_s)), policy)
    rest = whole.jobs[whole.jobs["submit_time_s"] >= from_s].reset_index(drop=True)
    if len(rest):
        pd.testing.assert_frame_equal(counted.jobs, rest)
    assert counted.summary["warm_up_jobs"] == len(jobs) - len(rest) == counted.warm_up_jobs
    assert counted.summary["jobs"] == len(rest)
    if len(rest):
        assert counted.summary["mean_jct_s"] == pytest.approx(rest["jct_s"].mean())
        assert counted.summary["makespan_s"] == rest["end_time_s"].max() - rest["submit_time_s"].min()


def a_log(path: Path, *, since_h: int) -> Path:
    """A node that is overloaded: a job of six hours every five, from so many hours after 1 March on."""
    began = datetime(2024, 3, 1, tzinfo=UTC)
    lines = [SUBMITTED]
    for hour in range(since_h, 10 * 24, 5):
        at = began + timedelta(hours=hour)
        lines.append(f"j{hour},vc,8,{at:%Y-%m-%d %H:%M:%S},{6 * 3_600},{6 * 3_600 + hour}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_replay_of_days_is_warm_and_cold_by_name(lucid, tmp_path: Path) -> None:
    a_log(tmp_path / "log.csv", since_h=0)
    a_log(tmp_path / "late.csv", since_h=120)  # the sixth day is its first
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\nvc,1\n")

    def replayed(log: str, *more: str) -> tuple[dict, pd.DataFrame, str]:
        said = lucid(
            *("simulate", "--jobs", log, "--format", "reference-csv", "--nodes", "nodes.csv"),
            *("--policy", "fifo", "--out", "out", "--no-plot", "--json", *more),
        )
        assert said.code == 0, said.err
        return said.json[0], pd.read_csv(tmp_path / "out" / "jobs_fifo.csv"), said.err

    days = ("--start", "2024-03-06", "--end", "2024-03-08")
    warm, table, said = replayed("log.csv", *days)
    assert "fill the cluster before the days that count" in said
    assert table["job_id"].iloc[0] == "j120"
    assert len(table) == warm["jobs"] == 10
    assert warm["warm_up_jobs"] > 0
    assert table["queuing_delay_s"].iloc[0] > 6 * 3_600, "a queue is there when the days begin"
    fills = lucid(
        *("simulate", "--jobs", "log.csv", "--format", "reference-csv", "--nodes", "nodes.csv", *days),
        *("--policy", "fifo", "--out", "out", "--no-plot", "--why", "j115"),
    )
    assert fills.code == 1
    assert "was submitted before the days that count" in fills.err
    cold, empty, said = replayed("log.csv", *days, "--cold")
    assert "warm_up_jobs" not in cold
    assert empty["queuing_delay_s"].iloc[0] == 0
    alone, as_alone, said = replayed("late.csv", *days)
    assert "The log has no job before those that count: the cluster starts empty." in said
    pd.testing.assert_frame_equal(empty, as_alone)
    assert alone["mean_jct_s"] == cold["mean_jct_s"]
    rows = lucid(
        *("sweep", "--jobs", "log.csv", "--format", "reference-csv", "--nodes", "nodes.csv", *days),
        *("--policy", "fifo", "--out", "sweep", "--workers", "1", "--json"),
    ).json["rows"]
    assert (rows[0]["mean_jct_s"], rows[0]["warm_up_jobs"]) == (warm["mean_jct_s"], warm["warm_up_jobs"])


def test_a_plan_begins_warm_and_its_commands_repeat_its_rows(lucid, tmp_path: Path) -> None:
    a_log(tmp_path / "log.csv", since_h=0)
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\nvc,1\n")
    asked = (
        *("plan", "--jobs", "log.csv", "--format", "reference-csv", "--nodes", "nodes.csv"),
        *("--start", "2024-03-06", "--metric", "mean", "--limit-s", "60", "--points", "2", "--json"),
    )
    warm = lucid(*asked, "--out", "warm", "--workers", "1").json
    cold = lucid(*asked, "--out", "cold", "--workers", "1", "--cold").json
    for document, more in ((warm, False), (cold, True)):
        row = next(row for row in document["rows"] if row["nodes"] == 1)
        words = row["command"].split()
        assert ("--cold" in words) is more
        again = lucid(*words[1:], "--json").json[0]
        assert again["mean_queuing_delay_s"] == pytest.approx(row["mean_wait_s"])
        assert again["jobs"] == row["jobs"]
    assert (
        next(row for row in warm["rows"] if row["nodes"] == 1)["mean_wait_s"]
        > 2 * 3_600 + next(row for row in cold["rows"] if row["nodes"] == 1)["mean_wait_s"]
    )


@pytest.mark.parametrize("policy", ["fifo", "sjf", "tiresias"])
def test_a_what_if_and_the_gate_have_the_same_figures(world: World, policy: str) -> None:
    window = held_out_window(
        Site(lake=world.lake_uri, cluster=CLUSTER),
        learned_until=world.until,
        hold_out_days=HOLD_OUT_DAYS,
        warm_up_days=WARM_UP_DAYS,
    )
    inputs = replay_inputs(
        read_held_out(Site(lake=world.lake_uri, cluster=CLUSTER), window), job_types="drawn", seed=0
    )
    judged = replay_contender(ReplayContender(policy, policy), inputs).jobs
    asked = read_lake(
        Site(lake=world.lake_uri, cluster=CLUSTER), start=window.start, end=window.end, events=ClusterEvents()
    )
    replayer = RunReplayer(asked)
    what_if = simulate(replayer.scenario(SweepRun(policy)), policy).jobs
    columns = ["job_id", "jct_s", "queuing_delay_s", "preemptions"]
    pd.testing.assert_frame_equal(what_if[columns], judged[columns], rtol=1e-9)
    assert judged["queuing_delay_s"].to_numpy().sum() > 0
    assert np.array_equal(asked.counted_from, window.start)


def test_the_jobs_of_a_lake_are_frozen_with_what_fills_the_cluster(world: World) -> None:
    start = world.until + timedelta(days=1)
    warm = read_lake_jobs(Site(lake=world.lake_uri, cluster=CLUSTER), start, None, warm_up_days=1)
    assert warm.warm_up_jobs > 0
    again = warm_jobs(
        warm.jobs.drop(columns=ARRIVAL, errors="ignore"),
        start,
        warm_up_from=warm_up_start(warm.jobs, start, 1),
    )
    pd.testing.assert_frame_equal(again.jobs, warm.jobs)
