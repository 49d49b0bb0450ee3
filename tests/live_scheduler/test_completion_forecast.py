"""Playing a live cluster forward: against what can be worked out by hand, and what must always hold."""

from dataclasses import replace
from math import inf, log
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, NotFoundError
from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.forecast.completion_forecast import FEWEST_SAMPLES, forecast
from live_scheduler.forecast.forecast_inputs import ALIKE, ForecastInputs, RunTime, kin_of, ranks_of
from live_scheduler.live_settings import LiveSettings, Mode
from simulator.workload.colocation import BelievedPairs, SummedUtilisation
from simulator.workload.job import JobProfile

NOW = 1_700_000_000.0
CONTROL = LiveSettings("mini", mode=Mode.CONTROL, policy="qssf")
KIN = kin_of("vc1", "ada", 4, NOW)
N1 = LiveNode("n1", 4, 0, True, ("vc1",))
N2 = LiveNode("n2", 4, 0, True, ("vc1",))


def waits(number, gpus=4, ago_s=100.0, **more):
    more = {"partition": "vc1", "virtual_cluster": "vc1", **more}
    return LiveJob(str(number), gpus=gpus, submit_time_s=NOW - ago_s, **more)


def runs(number, on, for_s=60.0, **more):
    gpus = sum(gpus for _, gpus in on)
    return waits(number, gpus, for_s + 10, start_time_s=NOW - for_s, gpus_on=tuple(on), **more)


def cluster(*jobs, nodes=(N1,), **more):
    used = {}
    for job in jobs:
        for node, gpus in job.gpus_on:
            used[node] = used.get(node, 0) + gpus
    nodes = tuple(replace(node, gpus_used=used.get(node.name, 0)) for node in nodes)
    return ClusterState(NOW, tuple(jobs), nodes, **more)


def played(state, run_times, setting=CONTROL, **more):
    """`run_times`: by id, a sure one in seconds or a RunTime."""
    beliefs = {
        str(job): time if isinstance(time, RunTime) else RunTime(time, time)
        for job, time in run_times.items()
    }
    return forecast(ForecastInputs(state, beliefs, setting, "release 3", **more))


def times(found, job):
    """(start, end) in seconds from now; sure, so P50 and P90 agree."""
    one = found.of(str(job))
    assert one.start_p50_s == pytest.approx(one.start_p90_s)
    assert one.end_p50_s == pytest.approx(one.end_p90_s)
    return one.start_p50_s - NOW, one.end_p50_s - NOW


# -- by hand -------------------------------------------------------------------------------------------------


def test_a_queue_whose_run_times_are_sure():
    state = cluster(runs(1, [("n1", 4)]), waits(2, ago_s=90), waits(3, ago_s=50))
    found = played(state, {1: 200.0, 2: 500.0, 3: 30.0})
    assert times(found, 1) == (-60, 140)
    assert times(found, 3) == (140, 170)  # shortest service first
    assert times(found, 2) == (170, 670)
    assert found.of("1").runs
    assert not found.of("2").runs


def test_below_control_the_clusters_own_order_is_played():
    """Priorities first, and only those are backfilled whose time limit fits into the gap."""
    state = cluster(
        runs(1, [("n1", 2)], time_limit_s=200.0),
        waits(2, 4, priority=100, time_limit_s=500.0),
        waits(3, 2, priority=300, time_limit_s=3_600.0),
        waits(4, 2, priority=50, time_limit_s=100.0),
    )
    run_times = {1: 160.0, 2: 50.0, 3: 40.0, 4: 20.0}
    found = played(state, run_times, replace(CONTROL, mode=Mode.OBSERVE))
    assert times(found, 3) == (0, 40)
    assert times(found, 4) == (40, 60)  # it is sure to be gone before job 1 has to be
    assert times(found, 2) == (100, 150)
    assert any("own order" in said for said in found.assumptions)
    assert times(played(state, run_times), 4) == (0, 20)  # in control the smallest goes first


def test_who_is_not_going_to_start_is_not_played_and_says_so():
    state = cluster(
        waits(1, held=True),
        waits(2, waits_for="a dependency"),
        waits(3, gpus=0, cpus=2),
        waits(4, gpus=8),
        waits(5, partition="closed", virtual_cluster="closed"),
        waits(6),
        waits(7),
        nodes=(N1, replace(N1, name="n9", partitions=("closed",))),
        closed_partitions=frozenset({"closed"}),
    )
    found = played(state, dict.fromkeys(range(1, 7), 50.0))
    whys = {number: found.of(str(number)).why for number in range(1, 8)}
    assert "held" in whys[1]
    assert "a dependency" in whys[2]
    assert "no GPU" in whys[3]
    assert "8 GPUs" in whys[4]
    assert "closed" in whys[5]
    assert "nothing is believed" in whys[7]
    assert all(found.of(str(number)).start_p50_s is None for number in (1, 2, 3, 4, 5, 7))
    assert times(found, 6) == (0, 50)
    assert set(found.jobs) == {job.job_id for job in state.jobs}  # none is dropped
    with pytest.raises(NotFoundError, match="too new"):
        found.of("99")


def test_nodes_that_are_away_smaller_or_in_others_use_are_nobodys():
    small, away = replace(N2, gpus=2), LiveNode("n3", 4, 4, False, ("vc1",))
    state = cluster(runs(1, [("n3", 4)]), waits(2), waits(3), waits(4, 2), nodes=(N1, small, away))
    state = replace(state, nodes=(N1, replace(small, gpus_used=1), replace(away, gpus_used=4)))
    found = played(state, {1: 100.0, 2: 50.0, 3: 60.0, 4: 10.0})
    assert times(found, 2) == (10, 60)  # n1 only: n3 never comes back, and of n2 one GPU is left
    assert times(found, 3) == (60, 120)
    assert times(found, 4) == (0, 10)
    assert times(found, 1) == (-60, 40)


def test_partitions_of_differently_sized_nodes_place_gangs_on_whole_nodes_each():
    nodes = (N1, N2, LiveNode("b1", 8, 0, True, ("vc2",)))
    found = played(cluster(waits(1, 8), nodes=nodes), {1: 10.0})
    assert times(found, 1) == (0, 10)


def test_a_node_of_two_partitions_is_freed_for_both():
    shared = replace(N1, partitions=("vc1", "vc2"))
    state = cluster(runs(1, [("n1", 4)], partition="vc2", virtual_cluster="vc2"), waits(2), nodes=(shared,))
    found = played(state, {1: 100.0, 2: 10.0})
    assert times(found, 2) == (40, 50)
    assert any("vc1, vc2 share nodes" in said for said in found.assumptions)


def test_a_partition_that_is_not_ordered_keeps_its_gpus_until_its_jobs_end():
    state = cluster(
        runs(1, [("n1", 4)], partition="vc2", virtual_cluster="vc2"),
        waits(2),
        waits(3, partition="vc2", virtual_cluster="vc2"),
        nodes=(replace(N1, partitions=("vc1", "vc2")),),
    )
    found = played(state, {1: 100.0, 2: 10.0, 3: 10.0}, replace(CONTROL, partitions=("vc1",)))
    assert times(found, 2) == (40, 50)
    assert times(found, 1) == (-60, 40)
    assert "not ordered" in found.of("3").why


def test_a_quota_counts_like_a_smaller_partition():
    state = cluster(runs(1, [("n1", 2)]), waits(2, 2), gpus_left={"vc1": 0})
    assert times(played(state, {1: 100.0, 2: 10.0}), 2) == (40, 50)


def test_an_array_starts_with_its_first_task_and_ends_with_its_last():
    found = played(cluster(waits(1, 2, tasks=4)), {1: 100.0})
    assert times(found, 1) == (0, 200)


@pytest.mark.slow
def test_many_tasks_are_played_up_to_a_number_of_jobs():
    arrays = [waits(number, 1, number, tasks=10_000) for number in range(1, 201)]
    found = played(cluster(*arrays), dict.fromkeys(range(1, 201), 10.0), samples=1)
    assert "Of each array 64 waiting tasks are played." in found.assumptions
    assert sum(job.end_p50_s is not None for job in found.jobs.values()) == 200


def test_runs_on_the_profiling_partition_end_at_its_limit_and_queue_at_home():
    prof = LiveNode("p1", 2, 0, True, ("prof",))
    setting = replace(CONTROL, policy="lucid", profiling_partition="prof")
    state = cluster(runs(1, [("p1", 2)], 60, partition="prof"), runs(2, [("n1", 4)]), nodes=(N1, prof))
    chosen = {"profiling_limit_s": 200.0, "profiling_in_place": False, "profiling_scales": False}
    found = played(state, {1: 1_000.0, 2: 460.0}, replace(setting, policy_settings=chosen))
    # Its run is over at 140 s; the node at home is free at 400 s, and all of its work is still to do.
    assert times(found, 1)[1] == pytest.approx(1_400)


@pytest.mark.parametrize("rule", ["scores", "pairs"])
def test_only_jobs_that_ask_for_a_share_of_a_gpu_are_played_as_sharing(rule):
    light = JobProfile(20.0, 10.0, 1_000.0, sharing_score=0)
    chosen = {"packing_rule": rule}
    setting = replace(CONTROL, policy="lucid", policy_settings=chosen, shared_partitions=("vc1",))
    more = {
        "profiles": {"1": light, "2": light},
        "believed_pairs": BelievedPairs(SummedUtilisation(), 0.5),
    }

    def start_of_the_second(shares):
        first = runs(1, [("n1", 1)], 300.0, shares_gpus=shares, restarts=1)
        second = waits(2, 1, shares_gpus=shares, restarts=1)
        state = cluster(first, second, nodes=(LiveNode("n1", 1, 0, True, ("vc1",)),))
        return times(played(state, {1: 2_000.0, 2: 1_500.0}, setting, **more), 2)[0]

    assert start_of_the_second(shares=True) == 0
    assert start_of_the_second(shares=False) == 1_700


def test_who_is_overdue_goes_first():
    state = cluster(waits(1, ago_s=50), waits(2, ago_s=5_000))
    setting = replace(CONTROL, longest_wait_s=1_000.0)
    found = played(state, {1: 10.0, 2: 100.0}, setting)
    assert times(found, 2) == (0, 100)
    assert times(played(state, {1: 10.0, 2: 100.0}), 2) == (10, 110)
    assert any("overdue" in said for said in found.assumptions)


def test_no_job_and_no_node():
    assert played(cluster(), {}).jobs == {}
    nowhere = played(cluster(waits(1), runs(2, [("n1", 4)]), nodes=()), {1: 5.0, 2: 100.0})
    assert nowhere.of("1").why
    assert times(nowhere, 2) == (-60, 40)


# -- run times -----------------------------------------------------------------------------------------------


def test_nobody_runs_beyond_a_limit_of_the_job_or_of_its_partition():
    state = cluster(waits(1, time_limit_s=70.0), waits(2), longest_run_s={"vc1": 90.0})
    found = played(state, {1: RunTime(60.0, 6_000.0), 2: RunTime(80.0, 8_000.0)})
    for number, limit_s in ((1, 70), (2, 90)):
        one = found.of(str(number))
        assert one.end_p90_s - one.start_p50_s <= limit_s + 90 + 1
    assert found.of("1").end_p90_s - NOW == 70
    late = played(cluster(runs(3, [("n1", 4)], 500.0, time_limit_s=100.0)), {3: 50.0})
    assert late.of("3").end_p90_s - NOW == pytest.approx(1)  # it is ended any moment


def test_p50_and_p90_of_a_lone_job_are_those_that_are_believed():
    found = played(cluster(waits(1)), {1: RunTime(100.0, 1_000.0)}).of("1")
    assert found.end_p50_s - NOW == pytest.approx(100, rel=0.1)
    assert found.end_p90_s - NOW == pytest.approx(1_000, rel=0.2)


beliefs = st.builds(lambda p50, ratio: RunTime(p50, p50 * ratio), st.floats(1, 1e6), st.floats(1, 1e4))


@settings(max_examples=200, deadline=None)
@given(belief=beliefs, age=st.floats(0.001, 1e4), limit=st.none() | st.floats(0.5, 1e3))
def test_what_is_left_of_a_run_is_some_time_and_within_the_limit(belief, age, limit):
    age_s = age * belief.p50_s
    limit_s = inf if limit is None else limit * belief.p50_s
    drawn = replace(belief, limit_s=limit_s).drawn(ranks_of("1", KIN, "r", 0, 32), age_s)
    assert np.isfinite(drawn).all()
    assert (drawn >= age_s + 1).all()
    assert (drawn <= max(limit_s, age_s + 1) + 1e-9).all()
    if limit is None and age_s > belief.p90_s:  # a sane remainder: half of them for half as long again
        assert np.median(drawn) >= 1.3 * age_s


@settings(max_examples=100, deadline=None)
@given(belief=beliefs, age=st.floats(0.01, 0.9))
def test_what_is_left_is_what_the_lognormal_leaves(belief, age):
    """Within the believed range: the share of draws below any time is that of the truncated lognormal."""
    spread = log(belief.p90_s / belief.p50_s) / NormalDist().inv_cdf(0.9)
    age_s = age * belief.p90_s
    if spread < 1e-3:
        return
    law = NormalDist(log(belief.p50_s), spread)
    ranks = np.array([0.1, 0.5, 0.9])
    drawn = belief.drawn(ranks, age_s)
    before = law.cdf(log(age_s))
    for rank, found in zip(ranks, drawn, strict=True):
        if found > age_s + 1:  # the least remainder
            assert (law.cdf(log(found)) - before) / (1 - before) == pytest.approx(rank, abs=1e-6)


def test_ranks_are_spread_evenly_and_are_each_jobs_own():
    one, other = (ranks_of(job, KIN, "r", 0, 64) for job in ("1", "2"))
    for ranks in (one, other):
        assert sorted(int(rank * 64) for rank in ranks) == list(range(64))
    assert (one != other).any()
    assert (ranks_of("1", KIN, "r", 0, 64) == one).all()
    assert (ranks_of("1", KIN, "another", 0, 64) != one).any()


def test_jobs_that_are_alike_are_long_in_the_same_plays():
    def likeness(one, other):
        first, second = (
            np.array([NormalDist().inv_cdf(rank) for rank in ranks_of(job, kin, "r", 0, 2_000)])
            for job, kin in (("1", one), ("2", other))
        )
        return np.corrcoef(first, second)[0, 1]

    mine = kin_of("vc1", "ada", 4, NOW)
    assert likeness(mine, mine) == pytest.approx(sum(ALIKE), abs=0.05)
    assert likeness(mine, kin_of("vc1", "ada", 4, NOW + 86_400)) == pytest.approx(ALIKE[0], abs=0.05)
    assert likeness(mine, kin_of("vc1", "bob", 4, NOW)) == pytest.approx(0, abs=0.07)


@pytest.mark.parametrize("bad", [(0.0, 1.0), (2.0, 1.0), (float("nan"), 1.0), (1.0, inf), (-1.0, 1.0)])
def test_a_belief_that_is_none_is_refused(bad):
    with pytest.raises(BadInputError, match="RunTime"):
        RunTime(*bad)


# -- what always holds ---------------------------------------------------------------------------------------


@st.composite
def live_clusters(draw):
    nodes = [
        LiveNode(
            f"n{at}",
            draw(st.sampled_from([2, 4, 4])),
            0,
            draw(st.sampled_from([True, True, True, False])),
            draw(st.sampled_from([("vc1",), ("vc2",), ("vc1", "vc2"), ("vc1", "prof"), ("prof",)])),
        )
        for at in range(draw(st.integers(1, 4)))
    ]
    jobs, number = [], 0
    for node in nodes:
        left = node.gpus
        while left and draw(st.booleans()):
            gpus = draw(st.integers(1, left))
            left -= gpus
            number += 1
            jobs.append(
                runs(
                    number,
                    [(node.name, gpus)],
                    draw(st.floats(0, 1e5)),
                    partition=node.partitions[0],
                    virtual_cluster="vc1",
                )
            )
    for _ in range(draw(st.integers(0, 8))):
        number += 1
        name = draw(st.sampled_from(["vc1", "vc2"]))
        jobs.append(
            waits(
                number,
                draw(st.integers(0, 6)),
                draw(st.floats(0, 1e6)),
                partition=name,
                virtual_cluster=name,
                held=draw(st.sampled_from([False, False, True])),
                time_limit_s=draw(st.none() | st.floats(1, 1e6)),
                priority=draw(st.none() | st.integers(1, 5)),
                tasks=draw(st.sampled_from([1, 1, 3])),
            )
        )
    run_times = {job.job_id: draw(beliefs) for job in jobs}
    return cluster(*jobs, nodes=nodes), run_times


policies = st.sampled_from(["lucid", "qssf", "fifo", "easy", "fair_share", "clarity"])


@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    live=live_clusters(),
    policy=policies,
    mode=st.sampled_from([Mode.CONTROL, Mode.ADVISE]),
    prof=st.sampled_from(["", "prof"]),
)
def test_every_job_has_times_in_order_or_a_reason_whatever_the_order_of_the_reading(live, policy, mode, prof):
    state, run_times = live
    setting = replace(CONTROL, policy=policy, mode=mode, profiling_partition=prof)
    found = played(state, run_times, setting, samples=9)
    assert list(found.jobs) == [job.job_id for job in state.jobs]
    for job in state.jobs:
        one = found.of(job.job_id)
        assert one.runs is not job.waiting
        if one.end_p50_s is None:
            assert one.why
            continue
        assert NOW <= one.end_p50_s <= one.end_p90_s
        assert one.start_p50_s <= one.end_p50_s
        if job.waiting:
            assert NOW <= one.start_p50_s <= one.start_p90_s <= one.end_p90_s
    turned = replace(state, jobs=state.jobs[::-1])
    again = played(turned, dict(reversed(run_times.items())), setting, samples=9)
    assert all(again.of(job.job_id) == found.of(job.job_id) for job in state.jobs)


def test_the_same_seed_says_the_same_and_another_says_otherwise():
    state = cluster(waits(1), waits(2))
    run_times = {1: RunTime(50, 500), 2: RunTime(60, 900)}
    assert played(state, run_times) == played(state, run_times)
    assert played(state, run_times, seed=1).jobs != played(state, run_times).jobs


@pytest.mark.slow
def test_long_queues_are_played_less_often():
    state = cluster(*(waits(number, ago_s=number) for number in range(1, 31)), nodes=(N1,))
    run_times = dict.fromkeys(range(1, 31), 10.0)
    assert played(state, run_times).samples == 64
    many = cluster(*(waits(number, tasks=256) for number in range(1, 80)), nodes=(N1,))
    assert FEWEST_SAMPLES <= played(many, dict.fromkeys(range(1, 80), 10.0), samples=8).samples <= 8
