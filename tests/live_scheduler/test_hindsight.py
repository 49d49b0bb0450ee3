"""Looking back: what the live order was worth, from a journal and what was believed at submission."""

import json
import random
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from live_scheduler.cluster_state import ClusterState, LiveNode
from live_scheduler.daemon import JOURNAL_FILE
from live_scheduler.hindsight.decision_log import FirstSight
from live_scheduler.hindsight.regret_job import (
    HINDSIGHT_FILE,
    RegretJob,
    RegretReport,
    StartAgreement,
    read_regret_report,
)
from live_scheduler.hindsight.replayed_window import (
    Hindsight,
    LivedJob,
    judge_window,
    lived_jobs,
)
from live_scheduler.live_settings import LiveSettings
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import JobEvent, JobEventKind, Journal
from live_scheduler.release import ClientStatus
from simulator.policies.registry import load_policy
from simulator.policy import Policy
from tests.waiting import wait_until

NODES = [("n1", 4, ("vc1",)), ("n2", 4, ("vc1",))]
DAY_S = 86_400.0


def lucid() -> Policy:
    return load_policy("lucid", {"sharing": "none", "profiling_nodes": 0})


def busy_day(seed: int = 0, jobs: int = 300) -> list[LivedJob]:
    """Jobs of 8 GPUs' worth of work and more, served first in, first out by one queue of whole nodes."""
    rng = random.Random(seed)
    arrivals = sorted(rng.uniform(0, DAY_S) for _ in range(jobs))
    free_at_s = [0.0, 0.0]
    lived = []
    for number, submit_s in enumerate(arrivals):
        duration_s = rng.lognormvariate(5.5, 1.4)
        node = min(range(2), key=free_at_s.__getitem__)
        start_s = max(submit_s, free_at_s[node])
        free_at_s[node] = start_s + duration_s
        lived.append(
            LivedJob(f"{number}", "vc1", "ann", 4, submit_s, start_s, start_s + duration_s, None, duration_s)
        )
    return lived


def back(jobs: list[LivedJob], **options: object) -> Hindsight:
    given = {"start_s": 0.0, "end_s": 4 * DAY_S, "nodes": NODES, "policy": lucid, "policy_name": "lucid"}
    return judge_window(jobs, **{**given, **options})  # type: ignore[arg-type]


def test_shortest_first_beats_first_come_and_says_by_how_much() -> None:
    found = back(busy_day())
    assert found.jobs == 300
    assert found.unranked == 0
    # The measured day was first in, first out on the same nodes; without limits nothing is backfilled.
    assert found.backfill.mean_jct_s == pytest.approx(found.measured.mean_jct_s, rel=1e-6)
    assert found.against_backfill.point_s < 0
    assert found.against_backfill.high_s is not None
    assert found.against_backfill.high_s < 0, "a clear gain"
    assert found.against_backfill.point_s == pytest.approx(
        found.live.mean_jct_s - found.backfill.mean_jct_s, rel=1e-9
    )
    # What was believed was true.
    assert found.against_true_durations.point_s == 0.0
    assert found.log10_error == pytest.approx(0.0, abs=1e-9)


def test_beliefs_turned_upside_down_are_found_out() -> None:
    jobs = busy_day()
    longest = max(job.estimated_duration_s or 0.0 for job in jobs)
    wrong = [
        LivedJob(
            job.job_id, job.virtual_cluster, job.user, job.gpus, job.submit_time_s, job.start_time_s,
            job.end_time_s, None, longest / (job.estimated_duration_s or 1.0),
        )
        for job in jobs
    ]  # fmt: skip
    found = back(wrong)
    assert found.against_true_durations.low_s is not None
    assert found.against_true_durations.low_s > 0
    assert found.against_backfill.point_s > 0
    assert found.log10_error is not None
    assert found.log10_error > 0.5


def test_jobs_that_still_run_hold_their_gpus_and_are_not_judged() -> None:
    whole_day = LivedJob("old", "vc1", "bob", 4, -50.0, -10.0, None, None, None)
    jobs = [whole_day, *busy_day(jobs=40)]
    found = back(jobs, end_s=DAY_S)
    assert found.jobs == sum((job.end_time_s or 0) <= DAY_S for job in jobs[1:])
    alone = back(jobs[1:], end_s=DAY_S)
    assert found.live.mean_queuing_delay_s > alone.live.mean_queuing_delay_s


def test_what_cannot_be_replayed_is_counted_by_rule() -> None:
    jobs = busy_day(jobs=20)
    cpu = LivedJob("cpu", "vc1", None, 0, 5.0, 6.0, 7.0)
    large = LivedJob("large", "vc1", None, 64, 5.0, 6.0, 7.0)
    later = LivedJob("later", "vc1", None, 1, 5.0, 9 * DAY_S, 9 * DAY_S + 1)
    found = back([*jobs, cpu, large, later])
    assert found.left_out == {"bigger_than_virtual_cluster": 1, "cpu_job": 1, "started_later": 1}
    with pytest.raises(BadInputError, match="has ended"):
        back([LivedJob("1", "vc1", None, 1, 5.0, 6.0, None)])
    with pytest.raises(BadInputError, match="No node"):
        back([LivedJob("1", "nowhere", None, 1, 5.0, 6.0, 7.0)])


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    report = RegretReport(DAY_S, StartAgreement(3, 2, 1.5, 0), back(busy_day(jobs=30)))
    (tmp_path / HINDSIGHT_FILE).write_text(json.dumps(asdict(report)))
    assert read_regret_report(tmp_path) == report


def event(at_s: float, happening: JobEventKind, job_id: str, duration_s: float | None = None) -> JobEvent:
    facts = {"job_id": job_id, "gpus": 1, "submit_time_s": 100.0, "virtual_cluster": "vc1", "user": "ann"}
    return JobEvent(at_s, happening, job_id, facts, duration_s)


def test_a_journal_becomes_jobs_with_what_was_believed() -> None:
    sight = FirstSight("a", 100.0, "vc1", 1, 42.0, "vc1", 1, 101.0, "release 3", 3, "lucid", "control")
    events = [
        event(100, JobEventKind.SUBMITTED, "a"),
        event(110, JobEventKind.STARTED, "a"),
        event(115, JobEventKind.REQUEUED, "a"),  # that run says nothing
        event(120, JobEventKind.STARTED, "a"),
        event(150, JobEventKind.ENDED, "a", 30.0),
        event(150, JobEventKind.STARTED, "runs on"),
        event(100, JobEventKind.SUBMITTED, "never ran"),
        event(160, JobEventKind.WITHDRAWN, "never ran"),
        event(140, JobEventKind.STARTED, "withdrawn"),
        event(160, JobEventKind.WITHDRAWN, "withdrawn"),
    ]
    a, runs_on = lived_jobs(events, {("a", 100.0): sight})
    assert (a.start_time_s, a.end_time_s, a.estimated_duration_s) == (120.0, 150.0, 42.0)
    assert (runs_on.start_time_s, runs_on.end_time_s, runs_on.estimated_duration_s) == (150.0, None, None)


def test_a_job_is_submitted_to_a_look_back_when_it_might_start() -> None:
    begun = event(190, JobEventKind.STARTED, "a")
    later = replace(begun, facts={**begun.facts, "ready_time_s": 170.0})
    events = [event(100, JobEventKind.SUBMITTED, "a"), later, event(250, JobEventKind.ENDED, "a", 60.0)]
    for seen in (events[:2], events):
        (job,) = lived_jobs(seen, {})
        assert (job.submit_time_s, job.start_time_s) == (170.0, 190.0)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.tuples(st.floats(0, 5_000), st.integers(1, 8), st.floats(1, 900), st.floats(0.1, 5_000)),
        min_size=1,
        max_size=25,
    )
)
def test_a_look_back_is_finite_and_causal(rows: list[tuple[float, int, float, float]]) -> None:
    jobs = [
        LivedJob(f"{i}", "vc1", None, gpus, submit, submit + 1, submit + 1 + run, None, belief)
        for i, (submit, gpus, run, belief) in enumerate(sorted(rows))
    ]
    found = back(jobs, end_s=10_000.0)
    assert found.jobs == len(jobs)
    mean_run_s = sum((job.end_time_s or 0) - job.start_time_s for job in jobs) / len(jobs)
    for figures in (found.backfill, found.live, found.true_durations):
        assert figures.mean_jct_s == pytest.approx(figures.mean_queuing_delay_s + mean_run_s, rel=1e-6)
        assert figures.mean_queuing_delay_s >= 0


@pytest.mark.slow
def test_the_daemon_has_looks_back_made_beside_its_passes(tmp_path: Path) -> None:
    lived = busy_day(jobs=60)
    end_s = max(job.end_time_s or 0 for job in lived) + 100.0
    events = []
    for one in lived:
        facts = {"gpus": one.gpus, "submit_time_s": one.submit_time_s, "virtual_cluster": "vc1"}
        end = one.end_time_s or 0.0
        events.append(JobEvent(one.start_time_s, JobEventKind.STARTED, one.job_id, facts))
        events.append(JobEvent(end, JobEventKind.ENDED, one.job_id, facts, end - one.start_time_s))
    Journal(tmp_path / JOURNAL_FILE).append(sorted(events, key=lambda each: each.at_s))
    now = [0.0]
    watcher = RegretJob(tmp_path, every_s=10.0, window_s=end_s, clock=lambda: now[0])
    status = ClientStatus("champion", "fallback", "", None, None, None, None, None, None, None)
    nodes = tuple(LiveNode(name, gpus, 0, True, partitions) for name, gpus, partitions in NODES)
    view = LiveView(end_s, 0.0, LiveSettings("mini", policy="lucid"), status, ClusterState(end_s, (), nodes))
    watcher.passed(view)
    assert watcher.latest is None
    assert watcher._process is None, "not yet"
    now[0] = 11.0
    try:
        wait_until(lambda: watcher.passed(view) or watcher.latest, "a report")
    finally:
        watcher.close()
    found = watcher.latest.hindsight
    assert found is not None, watcher.latest.problem
    assert (found.jobs, found.unranked, found.policy) == (60, 60, "lucid")
    assert read_regret_report(tmp_path) == watcher.latest
    assert RegretJob(tmp_path).latest == watcher.latest
