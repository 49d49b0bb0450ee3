"""Rate limits: never more than agreed, the weightiest first, everything in the end."""

from collections import deque

import hypothesis.strategies as st
from hypothesis import given, settings

from live_scheduler.adapter import Advise, Change, MoveTo, SendHome, SetPriority
from live_scheduler.deciding.priority_plan import plan_priorities
from live_scheduler.safety.rate_limit import RateLimit
from tests.live_scheduler.memory_cluster import MemoryCluster


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@given(
    per_pass=st.integers(1, 50),
    per_minute=st.integers(1, 500),
    passes=st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(0, 120)), max_size=40),
)
@settings(deadline=None)
def test_no_pass_and_no_minute_asks_for_more(
    per_pass: int, per_minute: int, passes: list[tuple[float, int]]
) -> None:
    clock = Clock()
    limit = RateLimit(per_pass, per_minute, clock=clock)
    asked: deque[tuple[float, int]] = deque()
    for later_s, wanted in passes:
        clock.now_s += later_s
        changes: list[Change] = [SetPriority(str(number), 10) for number in range(wanted)]
        chosen, deferred = limit.choose(changes, {str(number): number + 1 for number in range(wanted)})
        assert len(chosen) + deferred == wanted
        assert len(chosen) <= per_pass
        assert [change.job_id for change in chosen] == [str(number) for number in range(len(chosen))]
        asked.append((clock.now_s, len(chosen)))
        minute = sum(count for at_s, count in asked if at_s > clock.now_s - 60.0)
        assert minute <= per_minute + per_pass


@given(
    jobs=st.integers(1, 120),
    per_pass=st.integers(1, 40),
    shuffle=st.randoms(use_true_random=False),
    computed=st.booleans(),
)
@settings(deadline=None, max_examples=50)
def test_a_burst_is_ordered_over_several_passes_and_blocks_nobody(
    jobs: int, per_pass: int, shuffle: object, computed: bool
) -> None:
    cluster, clock = MemoryCluster(computed=computed), Clock()
    wanted = [cluster.submit() for _ in range(jobs)]
    shuffle.shuffle(wanted)  # type: ignore[attr-defined]
    places = {job_id: place for place, job_id in enumerate(wanted, 1)}
    limit = RateLimit(per_pass, 60 * per_pass, clock=clock)
    passes = 0
    while cluster.order() != wanted:
        passes += 1
        assert passes <= -(-jobs // per_pass)
        order = [(job_id, cluster.jobs[job_id].priority) for job_id in wanted]
        changes: list[Change] = [SetPriority(*each) for each in plan_priorities(order, cluster.priorities)]
        chosen, _ = limit.choose(changes, places)
        cluster.apply(chosen)
        clock.now_s += 1.0
        # A job that has its place already is in front of none that was to be served before it.
        assert len(cluster.order()) == jobs
        assert all(job.priority and not job.held for job in cluster.jobs.values())
        if computed:  # Slurm's own numbers lie below ours there, so what is placed goes first
            done = {job_id for job_id, _ in order if (cluster.jobs[job_id].priority or 0) >= 10_000}
            assert set(cluster.order()[: len(done)]) == done


def test_what_frees_a_job_goes_first_and_texts_go_last() -> None:
    limit = RateLimit(3, 60)
    changes: list[Change] = [
        Advise("1", "soon"),
        SetPriority("2", 20),
        SetPriority("1", 30),
        SendHome("9", "vc1"),
    ]
    chosen, deferred = limit.choose(changes, {"1": 1, "2": 2})
    assert chosen == [SendHome("9", "vc1"), SetPriority("1", 30), SetPriority("2", 20)]
    assert deferred == 1


def test_the_changes_of_a_job_stay_together() -> None:
    clock = Clock()
    limit = RateLimit(3, 180, clock=clock)
    changes: list[Change] = [
        SetPriority("1", 30),
        SetPriority("2", 20),
        MoveTo("3", "prof", "vc1"),
        SetPriority("3", 20),
    ]
    chosen, deferred = limit.choose(changes, {"1": 1, "2": 2, "3": 3})
    assert chosen == changes[:2]
    assert deferred == 2
    clock.now_s += 1.0
    assert limit.choose(changes[2:], {"3": 3}) == (changes[2:], 0)


def test_more_changes_of_a_job_than_a_pass_allows_come_one_by_one() -> None:
    clock = Clock()
    limit = RateLimit(1, 60, clock=clock)
    changes: list[Change] = [MoveTo("3", "prof", "vc1"), SetPriority("3", 20)]
    assert limit.choose(changes, {}) == (changes[:1], 1)
    assert limit.choose(changes[1:], {}) == ([], 1)
    clock.now_s += 1.0
    assert limit.choose(changes[1:], {}) == (changes[1:], 0)


def test_a_clock_that_stands_still_or_runs_back_gives_no_tokens() -> None:
    clock = Clock()
    limit = RateLimit(2, 60, clock=clock)
    changes: list[Change] = [SetPriority("1", 1), SetPriority("2", 2)]
    assert limit.choose(changes, {})[1] == 0
    clock.now_s -= 1_000.0
    assert limit.choose(changes, {}) == ([], 2)
