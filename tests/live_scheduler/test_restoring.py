"""The way back: after whatever was done, the queue is as if the daemon had never been there."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from foundation.errors import ServiceUnavailableError
from live_scheduler.adapter import Advise, RestrictToNode, ReturnToDefault, SetPriority, StartAfter
from live_scheduler.safety.restoring import BATCH, Restoration, changes_back, restore
from live_scheduler.safety.touched import TOUCHED_FILE, Touch, TouchedJobs, Way
from tests.live_scheduler.memory_cluster import PRIORITIES, MemoryCluster

# What happens to a cluster, and what a daemon does to it; numbers choose among the jobs there are.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "rank", "rank", "crash", "advise", "hold", "start", "end"]),
        st.integers(0, 1_000),
        st.integers(1, 8),
    ),
    max_size=40,
)


def choose(cluster: MemoryCluster, number: int) -> str | None:
    waiting = [job.job_id for job in cluster.jobs.values() if job.waiting and not job.held]
    return waiting[number % len(waiting)] if waiting else None


@given(steps=STEPS, computed=st.booleans())
@settings(max_examples=150, deadline=None)
def test_afterwards_the_order_is_that_of_a_cluster_that_was_never_touched(
    steps: list[tuple[str, int, int]], computed: bool
) -> None:
    touched_cluster, control = MemoryCluster(computed=computed), MemoryCluster(computed=computed)
    with TemporaryDirectory() as folder:
        for what, number, gpus in steps:
            job_id = choose(touched_cluster, number)
            for cluster in (touched_cluster, control):
                cluster.at_s += 1.0
                if what == "submit":
                    cluster.submit(gpus)
                elif job_id is not None and what in ("hold", "start", "end"):
                    getattr(cluster, what)(job_id)
            if what in ("rank", "crash", "advise") and job_id is not None:
                touched = TouchedJobs(Path(folder))  # the daemon may have been killed at any moment before
                state = touched_cluster.read()
                change = (
                    Advise(job_id, f"text {number}")
                    if what == "advise"
                    else SetPriority(job_id, 20_000 + number)
                )
                touched.note([change], state, PRIORITIES)
                if what != "crash":
                    touched_cluster.apply([change])
        held_priorities = {job_id: job.priority for job_id, job in control.jobs.items() if job.held}
        result = restore(touched_cluster, TouchedJobs(Path(folder)))
        assert result.complete
        assert touched_cluster.order() == control.order()
        assert not any(touched_cluster.advice.get(job_id) for job_id in touched_cluster.jobs)
        for job_id, priority in held_priorities.items():
            assert touched_cluster.jobs[job_id].held
            assert touched_cluster.jobs[job_id].priority == priority
        # The same again finds nothing to do.
        touched_cluster.asked.clear()
        assert restore(touched_cluster, TouchedJobs(Path(folder))) == Restoration()
        assert touched_cluster.asked == []
        # And what comes later comes later.
        assert touched_cluster.submit() == control.submit()
        assert touched_cluster.order() == control.order()


def ranked_backwards(cluster: MemoryCluster, folder: Path, jobs: int) -> TouchedJobs:
    touched = TouchedJobs(folder)
    ids = [cluster.submit() for _ in range(jobs)]
    changes = [SetPriority(job_id, 20_000 + at) for at, job_id in enumerate(ids)]
    touched.note(changes, cluster.read(), PRIORITIES)
    cluster.apply(changes)
    assert cluster.order() == ids[::-1]
    return touched


@given(jobs=st.integers(1, 60), fails_after=st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_a_cluster_that_goes_away_half_way_is_finished_later(jobs: int, fails_after: int) -> None:
    with TemporaryDirectory() as folder:
        cluster = MemoryCluster()
        touched = ranked_backwards(cluster, Path(folder), jobs)
        cluster.fails_after = fails_after
        if fails_after < jobs:
            with pytest.raises(ServiceUnavailableError):
                restore(cluster, touched)
        cluster.fails_after, cluster.away = None, False
        assert restore(cluster, TouchedJobs(Path(folder))).complete
        assert cluster.order() == [str(number + 1) for number in range(jobs)]


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_jobs_that_cannot_be_changed_keep_no_others_from_going_back(data: st.DataObject) -> None:
    ids = [str(number + 1) for number in range(20)]
    stuck = data.draw(st.frozensets(st.sampled_from(ids)))
    with TemporaryDirectory() as folder:
        cluster = MemoryCluster()
        touched = ranked_backwards(cluster, Path(folder), len(ids))
        cluster.stuck = stuck
        result = restore(cluster, touched)
        assert set(result.returned) == set(ids) - stuck
        assert set(result.left) == stuck == {refusal.change.job_id for refusal in result.refused}
        cluster.stuck = frozenset()
        assert restore(cluster, TouchedJobs(Path(folder))).complete
        assert cluster.order() == ids


def test_a_daemon_that_came_back_is_not_disturbed_further(tmp_path: Path) -> None:
    cluster = MemoryCluster()
    touched = ranked_backwards(cluster, tmp_path, 2 * BATCH)
    result = restore(cluster, touched, go_on=lambda: not cluster.asked[2 * BATCH :])
    assert len(result.returned) == BATCH
    assert not result.complete
    assert sorted(result.left + result.returned, key=int) == list(map(str, range(1, 2 * BATCH + 1)))
    assert restore(cluster, touched).complete


def test_whoever_is_numbered_anew_is_followed_by_all_younger_ones(tmp_path: Path) -> None:
    cluster = MemoryCluster()
    before, lost, after = cluster.submit(), cluster.submit(), cluster.submit()
    touched = TouchedJobs(tmp_path)
    changes = [SetPriority(before, 30_000), SetPriority(after, 20_000)]
    touched.note(changes, cluster.read(), PRIORITIES)
    cluster.apply([*changes, SetPriority(lost, 40_000)])
    touched.adopt([lost])  # what it had before is unknown
    assert restore(cluster, touched).returned == (before, lost, after)
    assert cluster.order() == [before, lost, after]


def test_priorities_that_nobody_else_gives_need_no_record(tmp_path: Path) -> None:
    cluster = MemoryCluster(priorities=replace(PRIORITIES, exclusive=True))
    ids = [cluster.submit() for _ in range(3)]
    cluster.apply([SetPriority(job_id, 20_000 + at) for at, job_id in enumerate(ids[:2])])
    assert restore(cluster, TouchedJobs(tmp_path)).returned == (ids[0], ids[1])
    assert restore(cluster, TouchedJobs(tmp_path)) == Restoration()
    touched = TouchedJobs(tmp_path)
    cluster.apply([SetPriority(ids[2], 20_000)])
    touched.note([SetPriority(ids[2], 30_000)], cluster.read(), cluster.priorities)
    assert touched.of(ids[2]).priority is None  # not the cluster's own


def test_jobs_that_were_never_touched_keep_what_an_admin_gave_them(tmp_path: Path) -> None:
    cluster = MemoryCluster()
    urgent, ranked = cluster.submit(), cluster.submit()
    cluster.apply([SetPriority(urgent, 1_999_999_999)])
    touched = TouchedJobs(tmp_path)
    touched.note([SetPriority(ranked, 20_000)], cluster.read(), PRIORITIES)
    restore(cluster, touched)
    assert cluster.jobs[urgent].priority == 1_999_999_999


def test_everything_means_also_what_no_record_names(tmp_path: Path) -> None:
    cluster = MemoryCluster()
    ranked_backwards(cluster, tmp_path, 5)
    (tmp_path / TOUCHED_FILE).unlink()  # the state folder was lost
    assert restore(cluster, TouchedJobs(tmp_path)).returned == ()
    assert restore(cluster, TouchedJobs(tmp_path), everything=True).returned == ("1", "2", "3", "4", "5")
    assert cluster.order() == ["1", "2", "3", "4", "5"]


def test_what_runs_would_wait_where_it_did_if_it_were_requeued(tmp_path: Path) -> None:
    cluster = MemoryCluster(priorities=replace(PRIORITIES, exclusive=True))
    touched = ranked_backwards(cluster, tmp_path, 2)
    own = touched.of("1").priority
    cluster.start("1")
    changes = changes_back(cluster.read(), touched, cluster.priorities)
    assert changes[0] == ReturnToDefault("1", own)


def test_delays_and_restrictions_are_taken_back(tmp_path: Path) -> None:
    cluster = MemoryCluster()
    job_id = cluster.submit()
    touched = TouchedJobs(tmp_path)
    touched.note([StartAfter(job_id, 30), RestrictToNode(job_id, "n1")], cluster.read(), PRIORITIES)
    assert changes_back(cluster.read(), TouchedJobs(tmp_path), cluster.priorities) == [
        RestrictToNode(job_id, None),
        StartAfter(job_id, 0),
    ]


def test_what_starts_meanwhile_is_back_by_itself(tmp_path: Path) -> None:
    cluster = MemoryCluster()
    touched = ranked_backwards(cluster, tmp_path, 3)
    read = cluster.read

    def read_too_early() -> object:
        state = read()
        if cluster.jobs["2"].waiting:
            cluster.start("2")
        return state

    cluster.read = read_too_early  # type: ignore[assignment, method-assign]
    result = restore(cluster, touched)
    assert result.returned == ("1", "3")
    assert result.refused == ()
    assert result.complete


# The record


def test_the_first_priority_is_the_one_that_counts(tmp_path: Path) -> None:
    cluster = MemoryCluster()
    job_id = cluster.submit()
    own = cluster.jobs[job_id].priority
    for priority in (20_000, 30_000):
        change = SetPriority(job_id, priority)
        TouchedJobs(tmp_path).note([change], cluster.read(), PRIORITIES)
        cluster.apply([change])
    assert TouchedJobs(tmp_path).of(job_id) == Touch(frozenset({Way.ORDERED}), own, (20_000, 30_000))
    assert len((tmp_path / TOUCHED_FILE).read_text().splitlines()) == 2


@given(cut=st.integers(0, 200), garbage=st.binary(max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_torn_record_loses_the_torn_line_only(cut: int, garbage: bytes) -> None:
    with TemporaryDirectory() as folder:
        cluster = MemoryCluster()
        ids = [cluster.submit() for _ in range(4)]
        touched = TouchedJobs(Path(folder))
        touched.note([SetPriority(job_id, 20_000) for job_id in ids[:3]], cluster.read(), PRIORITIES)
        path = Path(folder) / TOUCHED_FILE
        content = path.read_bytes()
        kept = content[: min(cut, len(content))]
        path.write_bytes(kept + garbage)
        again = TouchedJobs(Path(folder))
        for job_id in ids[: kept.count(b"\n")]:
            assert job_id in again
        again.note([SetPriority(ids[3], 20_000)], cluster.read(), PRIORITIES)
        assert ids[3] in TouchedJobs(Path(folder))


def test_two_who_write_do_not_lose_each_others_lines(tmp_path: Path) -> None:
    cluster = MemoryCluster()
    job_id, other = cluster.submit(), cluster.submit()
    daemon = TouchedJobs(tmp_path)
    daemon.note([SetPriority(job_id, 20_000)], cluster.read(), PRIORITIES)
    switch = TouchedJobs(tmp_path)
    switch.cross_off([job_id])
    # The daemon hung meanwhile; now it ranks the same job again.
    daemon.note([SetPriority(job_id, 20_000), SetPriority(other, 20_001)], cluster.read(), PRIORITIES)
    assert list(TouchedJobs(tmp_path)) == [job_id, other]


def test_the_record_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TouchedJobs, "most_stale_lines", 10)
    cluster = MemoryCluster()
    touched = TouchedJobs(tmp_path)
    for _ in range(200):
        job_id = cluster.submit()
        touched.note([SetPriority(job_id, 20_000)], cluster.read(), PRIORITIES)
        touched.forget_ended(cluster.jobs.keys())
        cluster.end(job_id)
    assert len(touched) < 20
    assert len((tmp_path / TOUCHED_FILE).read_text().splitlines()) < 20


@pytest.mark.parametrize(
    "line", ["", "[]", "1", "null", '{"job_id": "1"}', '{"job_id": "1", "how": ["loved"]}', "{"]
)
def test_lines_that_are_none_are_left_out(tmp_path: Path, line: str) -> None:
    good = json.dumps({"job_id": "7", "how": ["ordered"]})
    (tmp_path / TOUCHED_FILE).write_text(f"{line}\n{good}\n")
    assert list(TouchedJobs(tmp_path)) == ["7"]


def test_the_return_is_asked_for_in_the_order_of_submission(tmp_path: Path) -> None:
    cluster = MemoryCluster()
    touched = ranked_backwards(cluster, tmp_path, 12)
    returns: Callable[[], list[str]] = lambda: [  # noqa: E731
        change.job_id for change in cluster.asked if isinstance(change, ReturnToDefault)
    ]
    restore(cluster, touched)
    assert returns() == [str(number) for number in range(1, 13)]
