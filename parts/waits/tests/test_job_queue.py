"""The waiting queue that a job table tells of, and models that learn from it."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.memory.journal import JobEvent, JobEventKind, JobTracker
from lucid_models.training_data import as_known_at
from parts.waits.live.wait_forecasts import RecentStarts, queue_facts
from parts.waits.model.features import WaitFeatures
from parts.waits.model.job_queue import MOMENT_EVERY_S, moments_before, queue_log_of_jobs
from parts.waits.model.queue_moment import queue_at, queue_of_jobs
from parts.waits.model.wait_table import WaitTable
from parts.waits.tests.job_queues import FIRST_DAY, make_queue_jobs

UNTIL = (FIRST_DAY + pd.Timedelta(days=11)).to_pydatetime()


def seconds(times: pd.Series) -> np.ndarray:
    return ((times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)).to_numpy()


def test_who_was_submitted_and_had_not_started_waits() -> None:
    jobs = make_queue_jobs()
    moments = moments_before(UNTIL, 5)
    assert_array_equal(np.diff(moments), MOMENT_EVERY_S)
    log = queue_log_of_jobs(jobs, moments)
    submit, start = seconds(jobs["submit_time"]), seconds(jobs["start_time"])
    for moment in moments:
        waiting = set(jobs["job_id"][(submit <= moment) & (start > moment)])
        assert set(log.jobs["job_id"][queue_at(log, moment).waiting["job"]]) == waiting
    assert (log.rows_in, log.reasons) == (log.rows_kept, {})


def test_rows_that_tell_nothing_are_counted_and_withdrawn_jobs_waited_until_then() -> None:
    jobs = make_queue_jobs().head(4).copy()
    jobs["submit_time"] = FIRST_DAY
    jobs["start_time"] = FIRST_DAY + pd.Timedelta(days=3)
    jobs["end_time"] = FIRST_DAY + pd.Timedelta(days=4)
    jobs.loc[0, "start_time"] = FIRST_DAY - pd.Timedelta(days=1)
    jobs.loc[1, ["start_time", "end_time", "duration_s"]] = None
    jobs.loc[2, ["start_time", "duration_s"]] = None
    jobs.loc[2, "state"] = "CANCELLED"
    moment = FIRST_DAY.timestamp() + 86_400.0
    log = queue_log_of_jobs(jobs, np.array([moment, moment + 86_400.0]))
    assert log.reasons == {"started_before_submission": 1, "no_start_time": 1}
    assert log.rows_in == log.rows_kept + 2
    table = WaitTable.of(log)
    waits, is_over = table.waits(np.inf)
    assert list(is_over) == [False, True, False, True]
    assert waits == pytest.approx(np.log10(1 + 86_400.0 * np.array([3.0, 2.0, 2.0, 1.0])))


def test_what_comes_after_the_end_changes_nothing() -> None:
    jobs, moments = make_queue_jobs(), moments_before(UNTIL, 6)
    later = jobs.copy()
    is_after = later["start_time"] > UNTIL
    later.loc[is_after, "start_time"] += pd.Timedelta(days=9)
    later.loc[later["end_time"] > UNTIL, "end_time"] += pd.Timedelta(days=20)
    later = later[later["submit_time"] <= UNTIL]
    one, other = (
        WaitTable.of(queue_log_of_jobs(as_known_at(table, UNTIL), moments)) for table in (jobs, later)
    )
    assert_array_equal(one.matrix, other.matrix)
    assert_array_equal(one.start_s, other.start_s)


def test_a_live_daemon_computes_the_features_that_were_learned() -> None:
    jobs, moment = make_queue_jobs(), UNTIL.timestamp()
    log = queue_log_of_jobs(as_known_at(jobs, UNTIL), moments_before(UNTIL, 1))
    learned = queue_at(log, moment)
    submit, start, end = (seconds(jobs[f"{name}_time"]) for name in ("submit", "start", "end"))
    facts = jobs[["job_id", "user", "virtual_cluster", "gpus", "cpus", "time_limit_s"]].to_dict("records")
    facts = [each | {"submit_time_s": at_s} for each, at_s in zip(facts, submit, strict=True)]
    recent = RecentStarts()
    for each, start_s, end_s in zip(facts, start, end, strict=True):
        if start_s <= moment:
            recent.observe(JobEvent(start_s, JobEventKind.STARTED, each["job_id"], each))
        if end_s <= moment:
            recent.observe(JobEvent(end_s, JobEventKind.ENDED, each["job_id"], each, end_s - start_s))
    is_waiting = (submit <= moment) & (start > moment)
    waiting = [queue_facts(each) for each, waits in zip(facts, is_waiting, strict=True) if waits]
    live = queue_of_jobs(moment, waiting, recent.at(moment))
    features = WaitFeatures()
    # Ties of priority go by submission; of jobs submitted in the same second any may come first.
    both = [features.matrix(queue) for queue in (learned, live)]
    assert_array_equal(*(np.sort(matrix, axis=0) for matrix in both))
    assert both[0].shape[0] == len(waiting) > 20


def test_a_wait_begins_when_a_job_might_start() -> None:
    jobs = make_queue_jobs().head(4).copy()
    day = pd.Timedelta(days=1)
    jobs["submit_time"], jobs["start_time"], jobs["end_time"] = (
        FIRST_DAY,
        FIRST_DAY + 4 * day,
        FIRST_DAY + 5 * day,
    )
    jobs["eligible_time"] = [FIRST_DAY + 2 * day, FIRST_DAY, pd.NaT, pd.NaT]
    jobs.loc[3, ["start_time", "duration_s"]] = None
    jobs.loc[3, "state"] = "CANCELLED"
    moments = np.array([FIRST_DAY.timestamp() + days * 86_400.0 for days in (1, 3)])
    log = queue_log_of_jobs(jobs, moments)
    names = [sorted(log.jobs["job_id"][queue_at(log, moment).waiting["job"]]) for moment in moments]
    held, plain, unknown, _ = jobs["job_id"]
    assert names == [sorted([plain, unknown]), sorted([held, plain, unknown])]
    assert log.reasons == {"never_eligible": 1}
    later = queue_at(log, moments[1])
    waited_days = {
        log.jobs["job_id"][place]: round((moments[1] - submit) / 86_400.0, 3)
        for place, submit in zip(later.waiting["job"], later.waiting["submit_s"], strict=True)
    }
    assert waited_days == {held: 1.0, plain: 3.0, unknown: 3.0}
    known = as_known_at(jobs, (FIRST_DAY + day).to_pydatetime())
    assert known["eligible_time"].notna().tolist() == [False, True, False, False]


def test_a_live_wait_begins_when_the_job_might_start() -> None:
    """Unless the begin time is this product's own: of a job with a mark, or of shares of GPUs."""
    jobs = (
        LiveJob("later", "vc1", "vc1", 1, 100.0, begin_time_s=170.0, start_time_s=190.0),
        LiveJob("marked", "vc1", "vc1", 1, 100.0, begin_time_s=170.0, start_time_s=190.0, mark="lucid:..."),
        LiveJob("shared", "vc1", "vc1", 1, 100.0, begin_time_s=170.0, start_time_s=190.0, shares_gpus=True),
    )
    recent = RecentStarts()
    for happened in JobTracker().follow(ClusterState(200.0, jobs, ())):
        recent.observe(happened)
    assert [job["submit_s"] for job in recent.at(200.0)] == [170.0, 100.0, 100.0]


def test_a_job_withdrawn_before_it_might_start_never_waited() -> None:
    jobs = make_queue_jobs().head(1).copy()
    jobs[["start_time", "duration_s"]] = None
    jobs["state"], jobs["submit_time"], jobs["end_time"] = "CANCELLED", FIRST_DAY, FIRST_DAY
    jobs["eligible_time"] = FIRST_DAY + pd.Timedelta(days=1)
    log = queue_log_of_jobs(jobs, np.array([FIRST_DAY.timestamp()]))
    assert (log.jobs["job_id"].size, log.reasons) == (0, {"never_eligible": 1})
