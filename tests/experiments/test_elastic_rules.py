"""Rules of allocation: what must hold of all, and the rivals of PCS against plain versions of themselves."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.pools.quick_rules import QuickAfsL, QuickElasticFifo, QuickSrsf, QuickThemis
from parts.elastic.active_job import ActiveJob, ActiveJobCount
from parts.elastic.allocation import PlainAllocator, Pool
from parts.elastic.engine import ElasticSimulation, play_forward
from parts.elastic.rules.wfq import WeightedFairQueuing, WfqConfig
from parts.elastic.tests.test_elastic_exactness import Case, PlainPool, assert_same
from parts.elastic.tests.test_elastic_exactness import cases as exact_cases
from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity, SpeedUp
from simulator.workload.workload import Workload

PCS = WeightedFairQueuing(WfqConfig((60.0, 400.0, inf), (0.6, 0.3, 0.1), 0.8, 0.3))
RIVALS = (QuickAfsL(), QuickSrsf(), QuickThemis(lease_s=25.0), QuickElasticFifo())
RULES = (*RIVALS, PCS)
CURVES = (
    SpeedUp.linear(8),
    SpeedUp((0.0, 1.0, 1.8, 2.4, 2.9, 3.3, 3.4, 3.5, 3.6)),
    SpeedUp((0.0, 1.0, 1.9, 2.1, 3.9)),  # steps, as where a job leaves a node
    SpeedUp((0.0, 1.0, 2.5, 3.0, 3.2)),  # a second GPU more than doubles it
    SpeedUp((0.0, 1.0, 1.6, 1.4, 1.9)),  # a third slows it down
)


@st.composite
def worlds(draw, *, minimums=True):
    """A workload and a pool, on which every job of it can run."""
    gpus = draw(st.sampled_from([4, 8, 13]))
    whole = draw(st.booleans())
    now_s, jobs = 0.0, []
    for at in range(draw(st.integers(2, 16))):
        now_s += draw(st.sampled_from([0.0, 0.0, 1.0, 7.5, 40.0]))
        demand = draw(st.sampled_from([1, 1, 2, 3, 4, 8]))
        service_s = draw(st.sampled_from([5.0, 20.0, 20.0, 61.7, 300.0, 901.3]))
        curve = draw(st.sampled_from(CURVES))
        least = draw(st.sampled_from([0, 1, demand])) if whole and minimums else 0
        elasticity = Elasticity(service_s, curve, min(least, gpus))
        jobs.append(
            Job(str(at), "vc", None, demand, now_s, service_s / curve.at(demand), elasticity=elasticity)
        )
    return Workload(tuple(jobs), {}), Pool(gpus, whole)


def by_submission(simulation):
    return sorted(simulation.ended, key=lambda job: job.index)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@settings(max_examples=25, deadline=None)
@given(world=worlds())
def test_capacity_work_and_time(rule, world):
    workload, pool = world
    simulation = ElasticSimulation(workload, pool, rule)
    seen, done = 0.0, {}
    rates = {}
    while simulation.step():
        now_s = simulation.now_s
        assert now_s >= seen
        for index, rate in rates.items():
            done[index] = done.get(index, 0.0) + rate * (now_s - seen)
        seen = now_s
        active = simulation.active
        assert sum(job.gpus for job in active) <= pool.gpus + 1e-6
        for job in active:
            assert 0 <= job.gpus <= job.demand
            if pool.whole:
                assert job.gpus == int(job.gpus)
                assert job.gpus == 0 or job.gpus >= job.min_gpus
        rates = {job.index: job.rate for job in active}
        # No GPU idles that a job could use.
        left = pool.gpus - sum(job.gpus for job in active)
        if not pool.whole or all(job.min_gpus <= 1 for job in active):
            assert left < 1e-2 or all(job.gpus == pytest.approx(job.demand, abs=1e-2) for job in active)
    # Nobody is left, and everybody did his work, no more and no less.
    assert len(simulation.ended) == len(workload.jobs)
    for job in simulation.ended:
        assert done[job.index] == pytest.approx(job.service_s, abs=1e-3)
        assert job.end_time_s >= job.first_start_time_s >= job.submit_time_s


@pytest.mark.parametrize("rule", RIVALS, ids=lambda rule: type(rule).__name__)
@settings(max_examples=25, deadline=None)
@given(world=worlds())
def test_what_is_kept_up_to_date_is_what_the_plain_rule_says_and_so_are_predictions(rule, world):
    workload, pool = world
    quick = ElasticSimulation(workload, pool, rule, predict=True)
    plain = ElasticSimulation(workload, pool, rule, predict=play_forward)
    plain._allocator = PlainAllocator(rule, pool)
    quick.run()
    plain.run()
    for one, other in zip(by_submission(quick), by_submission(plain), strict=True):
        for name in (
            "end_time_s",
            "first_start_time_s",
            "predicted_end_time_s",
            "fair_duration_s",
            "resizes",
            "preemptions",
        ):
            assert getattr(one, name) == getattr(other, name), name


def plain_tournament(jobs, gpus, now_s):
    """AFS-L to the letter: for each GPU all jobs play one after the other."""
    held = dict.fromkeys(jobs, 0)

    def time_s(job, count):
        speed = job.speed_up.at(count)
        return job.remaining_at(now_s) / speed if speed else inf

    def speed(job, count):
        return 1 / (time_s(job, count) + 1e-7)

    playing = list(jobs)
    for _ in range(gpus):
        if not playing:
            break
        leader = playing[0]
        for job in playing[1:]:
            shorter, longer = leader, job
            if time_s(job, held[job]) < time_s(leader, held[leader]):
                shorter, longer = job, leader
            now, then = speed(shorter, held[shorter]), speed(shorter, held[shorter] + 1)
            other, more = speed(longer, held[longer]), speed(longer, held[longer] + 1)
            wins = then > more if now == 0 else (then - now) / now > (more - other) / more
            leader = shorter if wins else longer
        held[leader] += 1
        if held[leader] == leader.demand:
            playing.remove(leader)
    return list(held.values())


def active_jobs(sizes):
    active_count = ActiveJobCount(1, len(sizes))
    jobs = []
    for at, (service_s, demand, curve) in enumerate(sizes):
        elasticity = Elasticity(service_s, curve)
        job = Job(str(at), "vc", None, demand, 0.0, service_s / curve.at(demand), elasticity=elasticity)
        jobs.append(ActiveJob(job, at, active_count))
        jobs[-1].count_before = (0, 0)
    return jobs


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(
        st.tuples(
            st.sampled_from([10.0, 10.0, 20.0, 33.3, 400.0, 1e6]),
            st.sampled_from([1, 1, 2, 3, 4, 8]),
            st.sampled_from(CURVES[:4]),
        ),
        min_size=1,
        max_size=14,
    ),
    gpus=st.sampled_from([3, 8, 16]),
)
def test_the_tournaments_of_afs_come_out_as_if_all_were_held(sizes, gpus):
    jobs = active_jobs(sizes)
    assert QuickAfsL().allocate(jobs, Pool(gpus), 0.0) == plain_tournament(jobs, gpus, 0.0)


def test_srsf_serves_by_gpu_time_and_lets_the_next_have_what_is_left():
    linear = CURVES[0]
    jobs = active_jobs([(400.0, 4, linear), (90.0, 2, linear), (300.0, 4, linear)])
    # 400, 90 and 300 GPU seconds.
    assert QuickSrsf().allocate(jobs, Pool(7), 0.0) == [1.0, 2.0, 4.0]


def test_a_gang_gets_all_or_nothing_and_others_use_what_it_cannot():
    linear = CURVES[0]
    gang = Elasticity(10.0, linear, min_gpus=4)
    jobs = active_jobs([(20.0, 3, linear), (10.0, 4, linear), (500.0, 2, linear)])
    jobs[0].remaining_s = 1.0
    jobs[1].min_gpus = gang.min_gpus
    for rule in (QuickSrsf(), QuickAfsL(), QuickThemis()):
        given_gpus = rule.allocate(jobs, Pool(5, whole=True), 1.0)
        assert given_gpus[1] in (0.0, 4.0)
        assert sum(given_gpus) == 5.0


def test_themis_leases_end_and_go_to_whoever_is_worst_off():
    linear = CURVES[0]
    workload = Workload(
        tuple(
            Job(str(at), "vc", None, 1, 0.0, 1000.0, elasticity=Elasticity(1000.0, linear)) for at in range(2)
        ),
        {},
    )
    simulation = ElasticSimulation(workload, Pool(1), QuickThemis(lease_s=100.0))
    simulation.run()
    first, second = by_submission(simulation)
    # They take turns; the first was alone at first, which makes its fair time a little shorter.
    assert (first.end_time_s, second.end_time_s) == (1800.0, 2000.0)
    assert first.preemptions >= 7
    assert second.preemptions >= 7


def test_afs_shares_a_gpu_each_before_anybody_has_two():
    linear = CURVES[0]
    jobs = active_jobs([(1000.0, 4, linear), (10.0, 4, linear), (100.0, 4, linear)])
    assert QuickAfsL().allocate(jobs, Pool(3), 0.0) == [1.0, 1.0, 1.0]
    assert QuickAfsL().allocate(jobs, Pool(2), 0.0) == [0.0, 1.0, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
@settings(max_examples=25, deadline=None)
@given(case=exact_cases())
def test_elastic_fifo_knows_the_true_end(whole: bool, case: Case) -> None:
    pool = replace(case.pool, whole=whole)
    quick = ElasticSimulation(case.workload, pool, QuickElasticFifo(), predict=True)
    quick.run()
    plain = PlainPool(case.workload, pool, QuickElasticFifo())
    plain.run()
    assert_same(quick, plain)
    assert all(job.predicted_end_time_s == job.end_time_s for job in quick.ended)
