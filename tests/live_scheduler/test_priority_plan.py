"""Fewest changes, and an order that holds, for any queue."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_scheduler.adapter import PriorityRange
from live_scheduler.cluster_state import ClusterState, Kept, LiveJob
from live_scheduler.deciding.decision import Decision, QueuePlace
from live_scheduler.deciding.priority_plan import plan_priorities, priority_changes

ROOMY = PriorityRange(1_000, 2_000_000_000)
presents = st.lists(
    st.none() | st.integers(0, 12) | st.integers(990, 1_030) | st.integers(0, 2**32), max_size=30
)


def after(order, changes):
    new = dict(changes)
    return [new.get(job, present) for job, present in order]


@given(presents, st.sampled_from([ROOMY, PriorityRange(1, 60), PriorityRange(1_000, 1_029)]))
def test_priorities_fall_along_the_order_and_stay_within_their_range(present, allowed):
    order = [(str(at), priority) for at, priority in enumerate(present)]
    changes = plan_priorities(order, allowed)
    found = after(order, changes)
    assert all(one > other for one, other in pairwise(found))
    assert all(allowed.least <= priority <= allowed.most for priority in found)
    assert all(dict(order)[job] != priority for job, priority in changes)
    assert plan_priorities(list(zip((job for job, _ in order), found, strict=True)), allowed) == []


@given(st.lists(st.integers(10, 20), max_size=8))
def test_no_fewer_changes_would_do(present):
    """In a range with room between any two, only the longest falling run counts."""
    present = [priority * 10_000 for priority in present]
    longest = max(
        (
            size
            for size in range(len(present) + 1)
            for kept in combinations(present, size)
            if all(one > other for one, other in pairwise(kept))
        ),
        default=0,
    )
    order = [(str(at), priority) for at, priority in enumerate(present)]
    assert len(plan_priorities(order, PriorityRange(1, 1_000_000))) == len(present) - longest


def test_a_job_that_comes_in_between_is_the_only_one_that_changes():
    order = [("a", 3_000), ("new", None), ("b", 2_000), ("c", 1_500)]
    assert plan_priorities(order, ROOMY) == [("new", 2_500)]


@pytest.mark.slow
@pytest.mark.parametrize("front", [True, False])
def test_jobs_that_come_one_after_another_change_nobody_else(front):
    order = []
    for number in range(1_000):
        job = (f"new{number}", None)
        order = [job, *order] if front else [*order, job]
        changes = plan_priorities(order, ROOMY)
        assert [name for name, _ in changes] == [job[0]]
        order = list(zip((name for name, _ in order), after(order, changes), strict=True))


def test_a_gap_without_room_moves_its_neighbours_and_nobody_else():
    order = [("first", 1_900), ("a", 1_001), ("new", None), ("b", 1_000), ("last", 500)]
    assert {job for job, _ in plan_priorities(order, PriorityRange(1, 2_000))} in ({"a", "new"}, {"new", "b"})


def test_jobs_that_come_between_the_same_two_seldom_move_others():
    allowed = PriorityRange(1, 65_000)
    order = [(f"old{at}", None) for at in range(2_000)]
    order = list(zip((job for job, _ in order), after(order, plan_priorities(order, allowed)), strict=True))
    moved = 0
    for number in range(100):
        order.insert(1_000, (f"new{number}", None))
        changes = plan_priorities(order, allowed)
        moved += len(changes) - 1
        order = list(zip((job for job, _ in order), after(order, changes), strict=True))
    assert moved < 10 * 100


def test_more_jobs_than_priorities_are_an_error():
    with pytest.raises(ValueError, match="3 jobs"):
        plan_priorities([("a", None), ("b", None), ("c", None)], PriorityRange(1, 2))


EXCLUSIVE = PriorityRange(1_000, 9_000, exclusive=True)


def planned(by_hand, present):
    """Priorities by job after jobs a, b ... were ranked in this order beside one that a person put there."""
    mine = [
        LiveJob(name, "vc1", "vc1", 1, 0.0, priority=each)
        for name, each in zip("abcd", present, strict=False)
    ]
    theirs = LiveJob("x", "vc1", "vc1", 1, 0.0, priority=by_hand, kept={Kept.ORDER: "an operator"})
    places = [QueuePlace(job.job_id, "vc1", at, False, None, None) for at, job in enumerate(mine, start=1)]
    decision = Decision(0.0, "", None, "lucid", tuple(places), (), {}, 0.0)
    changes = priority_changes(decision, ClusterState(0.0, (*mine, theirs), ()), "", EXCLUSIVE)
    return {job.job_id: job.priority for job in mine} | {each.job_id: each.priority for each in changes}


def test_who_was_put_in_front_of_all_by_hand_stays_there():
    new = planned(5_000, [None, 4_000, 3_000])
    assert 5_000 > new["a"] > new["b"] == 4_000
    assert planned(5_000, [3_000, 4_000, 2_000])["a"] < 5_000


def test_who_was_put_among_others_or_has_no_room_behind_moves_nobody():
    assert planned(3_500, [None, 4_000, 3_000])["a"] > 4_000
    assert planned(1_001, [None, None, None])["c"] > 1_001
    assert planned(4_711_000, [None, 4_000])["a"] > 4_000
