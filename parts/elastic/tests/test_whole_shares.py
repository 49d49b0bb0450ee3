"""How whole GPUs are handed out: each rule of `elastic.rules.whole_shares` by itself, and together."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.elastic.active_job import ActiveJob, ActiveJobCount
from parts.elastic.rules.whole_shares import in_turn, rounded, whole_shares
from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity, SpeedUp


def job(index, demand, least=1, holds=0, submit_s=0.0, work_s=100.0):
    curve = SpeedUp.linear(demand)
    elasticity = Elasticity(work_s, curve, least)
    made = Job(f"j{index}", "vc", None, demand, submit_s, work_s / demand, elasticity=elasticity)
    active = ActiveJob(made, index, ActiveJobCount())
    active.gpus = float(holds)
    active.caps = (float(max(1, demand // 2)), float(demand))
    return active


def given_to(queues, shares, gpus, now_s=0.0):
    given = whole_shares(queues, shares, gpus, now_s)
    return [[given[active] for active in queue] for queue in queues]


def test_shares_are_rounded_by_largest_remainder():
    assert rounded([2.5, 1.2, 0.3], 4) == [3, 1, 0]
    assert rounded([1.5, 1.5], 3) == [2, 1]
    assert rounded([0.0, 7.0], 8) == [0, 7]


def test_what_runs_keeps_its_minimum_and_the_class_least_below_its_share_gives_way():
    rigid = job(0, 6, least=6, holds=6)
    assert given_to([[rigid], [job(1, 8)]], [2.0, 6.0], 8) == [[6], [2]]


def test_a_class_whose_share_is_less_than_its_jobs_need_is_served_all_the_same():
    running = [job(i, 8, holds=2) for i in range(4)]
    assert given_to([running, [job(9, 4, least=4)]], [7.9, 0.1], 8) == [[1, 1, 1, 1], [4]]


def test_it_has_to_wait_where_what_runs_cannot_shrink_and_others_use_what_is_left():
    running, waiting = job(0, 6, least=6, holds=6), job(3, 1, submit_s=90.0)
    large = job(2, 4, least=4, submit_s=10.0, work_s=400.0)
    assert given_to([[running, waiting], [large]], [7.0, 1.0], 8, now_s=100.0) == [[6, 1], [0]]
    # After 400 s on its share of one GPU its turn has come: nobody younger starts.
    assert given_to([[running, waiting], [large]], [7.0, 1.0], 8, now_s=410.0) == [[6, 0], [0]]


def test_nobody_overtakes_in_a_class_unless_gpus_are_left_over():
    queue = [job(0, 4, least=4, holds=4), job(1, 4, least=4), job(2, 1)]
    assert given_to([queue, [job(3, 2)]], [4.0, 2.0], 6) == [[4, 0, 0], [2]]
    assert given_to([queue], [6.0], 6) == [[4, 0, 1]]


def test_caps_hold_until_others_have_theirs():
    assert given_to([[job(0, 8), job(1, 8)]], [8.0], 8) == [[4, 4]]
    assert given_to([[job(0, 8), job(1, 8)]], [10.0], 10) == [[8, 2]]


def test_in_turn_is_strict_and_keeps_what_runs():
    assert in_turn([job(0, 4, least=4), job(1, 1)], 3) == [0, 0]
    assert in_turn([job(0, 4), job(1, 4, least=2, holds=4)], 5) == [3, 2]
    assert in_turn([job(0, 4, least=4), job(1, 4, least=2, holds=2)], 5) == [0, 4]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_any_jobs_share_all_that_they_can_use(seed):
    random = Random(seed)
    gpus = random.randint(1, 16)
    left = gpus
    queues = [[] for _ in range(random.randint(1, 4))]
    for index in range(random.randint(1, 12)):
        demand = random.randint(1, 8)
        active = job(index, demand, random.randint(0, demand), submit_s=float(index))
        least = max(1, active.min_gpus)
        if random.random() < 0.5 and least <= left:
            active.gpus = float(random.randint(least, min(left, demand)))
            left -= int(active.gpus)
        random.choice(queues).append(active)
    demands = [sum(active.demand for active in queue) for queue in queues]
    weights = [random.random() + 0.01 for _ in queues]
    shares = [min(d, gpus * w / sum(weights)) for d, w in zip(demands, weights, strict=True)]
    given = whole_shares(queues, shares, gpus, now_s=15.0)
    total = sum(given.values())
    assert total <= gpus
    for queue in queues:
        for active in queue:
            share = given[active]
            assert share == int(share)
            assert share == 0 or max(1, active.min_gpus) <= share <= active.demand
            assert share or not active.gpus
    idle = gpus - total
    if idle:  # what runs has all that it can use, and no job that waits fits, or one's turn has come
        assert all(share in (0, active.demand) for active, share in given.items())
        fits = [a for a, share in given.items() if not share and max(1, a.min_gpus) <= idle]
        overdue = [a for a, share in given.items() if not share and a not in fits]
        assert not fits or overdue


@pytest.mark.parametrize("small_share", [0.05, 0.5])
def test_running_on_a_small_class_is_never_left_out_for_good(small_share):
    """Served one at a time whatever its share: as its first job ends, the next begins."""
    others = [job(i, 4, holds=1) for i in range(3)]
    for number in range(10, 14):
        small = [job(number, 2, least=2)]
        assert given_to([others, small], [4 - small_share, small_share], 5)[1] == [2]
