"""Guards: what cannot be right is named; what can be is let through."""

import math
import random
from dataclasses import replace

import pytest

from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.decision import Decision, QueuePlace
from live_scheduler.safety.heartbeat import Moment
from live_scheduler.safety.safety_net import (
    OscillationGuard,
    ReadingGuard,
    clock_problem,
    decision_problem,
    turned,
)

NODES = (LiveNode("n1", 8, 0, True, ("vc1",)),)


def state(*job_ids: str) -> ClusterState:
    return ClusterState(1_000.0, tuple(LiveJob(each, "vc1", "vc1", 1, 900.0) for each in job_ids), NODES)


def decision(*job_ids: str, problem: str | None = None, pool: str = "vc1") -> Decision:
    ranked = tuple(
        QueuePlace(job_id, pool, place, False, 60.0, (60.0,)) for place, job_id in enumerate(job_ids, 1)
    )
    return Decision(1_000.0, "r", 1, "lucid", ranked, (), {}, 0.001, problem)


@pytest.mark.parametrize(
    ("later_s", "wall_s", "cluster_s", "wrong"),
    [
        (2.0, 2.0, 2.0, None),
        (2.0, 2.4, 2.0, None),  # slewed
        (3_600.0, 3_600.0, 3_601.0, None),  # the machine slept, and the cluster too
        (2.0, 3_602.0, 3_602.0, "set by +3600 s"),
        (2.0, -3_598.0, -3_598.0, "set by -3600 s"),
        (2.0, 2.0, 500.0, "differ by -498 s"),
        (2.0, 2.0, math.nan, "differ by"),
    ],
)
def test_clocks(later_s: float, wall_s: float, cluster_s: float, wrong: str | None) -> None:
    before, now = Moment(1_000.0, 50.0, "boot"), Moment(1_000.0 + wall_s, 50.0 + later_s, "boot")
    problem = clock_problem(before, now, 1_000.0 + cluster_s)
    assert problem is None if wrong is None else wrong in (problem or "")


def test_a_decision_that_can_be_followed() -> None:
    assert decision_problem(decision("1", "2"), state("1", "2", "3")) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_estimates_that_are_none(bad: float) -> None:
    good = decision("1", "2")
    ranked = (good.ranked[0], good.ranked[1]._replace(estimated_duration_s=bad))
    assert "job 2" in str(decision_problem(replace(good, ranked=ranked), state("1", "2")))


def test_ranks_that_are_none() -> None:
    good = decision("1")
    ranked = (good.ranked[0]._replace(rank=(0.0, math.nan)),)
    assert "rank of job 1" in str(decision_problem(replace(good, ranked=ranked), state("1")))


def test_jobs_that_do_not_wait() -> None:
    cluster = state("1", "2")
    running = replace(cluster.jobs[1], start_time_s=950.0)
    held = replace(cluster.jobs[1], held=True)
    assert decision_problem(decision("1", "3"), cluster) == "Job 3 was ranked, but does not wait."
    for job in (running, held):
        changed = replace(cluster, jobs=(cluster.jobs[0], job))
        assert decision_problem(decision("1", "2"), changed) == "Job 2 was ranked, but does not wait."


def test_jobs_and_places_twice() -> None:
    good = decision("1", "2")
    twice = replace(good, ranked=(good.ranked[0], good.ranked[0]._replace(place=2)))
    assert decision_problem(twice, state("1")) == "Job 1 was ranked twice."
    same = replace(good, ranked=(good.ranked[0], good.ranked[1]._replace(place=1)))
    assert "the place 1 in vc1" in str(decision_problem(same, state("1", "2")))
    assert decision_problem(decision(problem="no"), state()) == "no"


def test_a_cluster_that_lost_its_jobs_is_read_again() -> None:
    guard = ReadingGuard()
    full, empty = state(*map(str, range(20))), state()
    assert guard.problem(full) is None
    assert "20 of 20 jobs are gone" in str(guard.problem(empty))
    assert guard.problem(full) is None  # it was restarting
    assert guard.problem(empty) is not None
    assert guard.problem(empty) is not None
    assert guard.problem(empty) is None  # so it is
    assert guard.problem(empty) is None


def test_few_jobs_may_end_at_once() -> None:
    guard = ReadingGuard()
    assert guard.problem(state("1", "2", "3")) is None
    assert guard.problem(state()) is None


def test_many_jobs_may_end_while_others_stay() -> None:
    guard = ReadingGuard()
    assert guard.problem(state(*map(str, range(20)))) is None
    assert guard.problem(state("18", "19")) is None


def test_a_cluster_without_nodes_is_none() -> None:
    assert ReadingGuard().problem(replace(state("1"), nodes=())) == "The cluster named no node."


def test_turned_neighbours() -> None:
    assert turned(decision("1", "2", "3", "4"), decision("1", "2", "3", "4")) == 0.0
    assert turned(decision("1", "2", "3", "4"), decision("4", "3", "2", "1")) == 1.0
    assert turned(decision("1", "2", "3", "4"), decision("2", "3", "4", "1")) == pytest.approx(1 / 3)
    assert turned(decision("1", "2"), decision("2", "1", pool="vc2")) == 0.0  # it moved to another queue
    assert turned(decision(), decision("1")) == 0.0


@pytest.mark.parametrize("period", [2, 3])
def test_an_order_that_goes_to_and_fro_is_left_alone(period: int) -> None:
    guard = OscillationGuard(rest_s=100.0)
    names = [str(number) for number in range(30)]
    orders = [decision(*names), decision(*names[::-1]), decision(*names[1::2], *names[::2][::-1])][:period]
    said = [guard.problem(orders[number % period], 2.0 * number) for number in range(period + 6)]
    assert said[:-1] == [None] * (period + 5)
    assert "to and fro in 6" in str(said[-1])
    at_s = 2.0 * (period + 5)
    # It settles, and is trusted again after a rest.
    for later_s in (2.0, 4.0, 50.0, 99.0):
        assert guard.problem(orders[0], at_s + later_s) is not None
    assert guard.problem(orders[0], at_s + 101.0) is None


def test_what_is_learnt_quickly_is_no_oscillation() -> None:
    guard = OscillationGuard()
    order = random.Random(0)
    names = [str(number) for number in range(60)]
    for number in range(60):
        order.shuffle(names)
        assert guard.problem(decision(*names), 2.0 * number) is None


def test_a_queue_that_merely_changes_does_not_oscillate() -> None:
    guard = OscillationGuard()
    waiting = [str(number) for number in range(40)]
    for number in range(200):
        # The first starts, a newcomer goes to the front or the back, the estimates of two change.
        waiting = waiting[1:]
        waiting.insert(0 if number % 3 else len(waiting), f"new{number}")
        swap = number % (len(waiting) - 1)
        waiting[swap : swap + 2] = waiting[swap : swap + 2][::-1]
        assert guard.problem(decision(*waiting), 2.0 * number) is None
