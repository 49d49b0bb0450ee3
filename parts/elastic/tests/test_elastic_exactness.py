"""The quick elastic simulation and its predictions against a plain one: the same floats, always."""

from dataclasses import dataclass, replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from parts.elastic.active_job import ActiveJob, ActiveJobCount
from parts.elastic.allocation import AllocationRule, Pool
from parts.elastic.engine import ElasticSimulation
from parts.elastic.rules.elastic_fifo import ElasticFifoRule
from parts.elastic.rules.wfq import WeightedFairQueuing, WfqConfig
from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity, SpeedUp
from simulator.workload.workload import Workload


class PlainPool:
    """As plain as can be: at every event everybody is looked at, and a prediction plays copies of all."""

    def __init__(self, workload: Workload, pool: Pool, rule: AllocationRule) -> None:
        self.to_come = [ActiveJob(job, at, ActiveJobCount()) for at, job in enumerate(workload.jobs)]
        self.active: list[ActiveJob] = []
        self.ended: list[ActiveJob] = []
        self.pool, self.rule, self.now_s = pool, rule, 0.0

    def step(self) -> ActiveJob | None:
        """Let the next event happen; returns the job that was submitted."""
        ending = min(self.active, key=lambda job: (job.end_at_s, job.index), default=None)
        submitted = self.to_come[0] if self.to_come else None
        if ending is not None and (submitted is None or ending.end_at_s <= submitted.submit_time_s):
            assert ending.end_at_s < inf
            submitted = None
            self.now_s = ending.end_at_s
            ending.end_time_s = self.now_s
            self.active.remove(ending)
            self.ended.append(ending)
        else:
            assert submitted is not None
            self.now_s = submitted.submit_time_s
            self.rule.admit(submitted)
            self.active.append(self.to_come.pop(0))
        for job, gpus in zip(
            self.active, self.rule.allocate(self.active, self.pool, self.now_s), strict=True
        ):
            if gpus != job.gpus:
                job.hold(gpus, self.now_s)
        return submitted

    def run(self) -> None:
        while self.to_come or self.active:
            job = self.step()
            if job is not None:
                job.predicted_end_time_s = self.end_if_nothing_comes(job)

    def end_if_nothing_comes(self, job: ActiveJob) -> float:
        ahead = PlainPool(Workload((), {}), self.pool, self.rule)
        ahead.active = [other.copy(ActiveJobCount()) for other in self.active]
        while True:
            ahead.step()
            if ahead.ended[-1].index == job.index:
                return ahead.now_s


@dataclass(frozen=True)
class Case:
    workload: Workload
    pool: Pool
    config: WfqConfig


def elastic_job(at: int, submit_s: float, service_s: float, gpus: int, curve: SpeedUp) -> Job:
    return Job(
        f"job {at}",
        "all",
        None,
        gpus,
        submit_s,
        service_s / curve.at(gpus),
        elasticity=Elasticity(service_s, curve),
    )


# Speeds that rise, fall and rise again with the number of GPUs.
curves = st.lists(st.sampled_from([0.4, 0.9, 1.0, 1.3, 1.7, 2.5, 3.1, 4.0, 6.3]), max_size=9).map(
    lambda speeds: SpeedUp((0.0, 1.0, *speeds))
) | st.integers(1, 12).map(SpeedUp.linear)
sizes = st.sampled_from([0.0, 1e-7, 0.3, 1.0, 2.0, 5.0, 60.0, 977.7]) | st.floats(0.0, 1000.0)
waits = st.sampled_from([0.0, 0.0, 0.0, 1.0, 1.0, 2.5, 10.0, 1 / 3]) | st.floats(0.0, 300.0)


@st.composite
def configs(draw: st.DrawFn) -> WfqConfig:
    thresholds = sorted(draw(st.sets(st.sampled_from([0.5, 1.0, 3.0, 20.0, 100.0, 500.0]), max_size=4)))
    classes = len(thresholds) + 1
    parts = draw(st.lists(st.integers(1, 1000), min_size=classes, max_size=classes))
    return WfqConfig(
        (*thresholds, inf),
        tuple(part / sum(parts) for part in parts),  # also those that rise from class to class
        draw(st.sampled_from([0.0, 0.3, 0.776, 1.0]) | st.floats(0.0, 1.0)),
        draw(st.sampled_from([0.01, 0.1, 0.568, 1.0])),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    gpus = draw(st.sampled_from([1, 2, 4, 7, 16]))
    drawn = draw(st.lists(st.tuples(waits, sizes, st.integers(1, gpus + 3), curves), min_size=1, max_size=24))
    jobs, now_s = [], 0.0
    for at, (wait_s, size_s, demand, curve) in enumerate(drawn):
        now_s += wait_s
        jobs.append(elastic_job(at, now_s, size_s, demand, curve))
    return Case(Workload(tuple(jobs), {}), Pool(gpus), draw(configs()))


def assert_same(quick: ElasticSimulation, plain: PlainPool) -> None:
    assert [job.index for job in quick.ended] == [job.index for job in plain.ended]
    for mine, theirs in zip(quick.ended, plain.ended, strict=True):
        for name in (
            "end_time_s",
            "predicted_end_time_s",
            "first_start_time_s",
            "queuing_delay_s",
            "resizes",
            "preemptions",
        ):
            assert getattr(mine, name) == getattr(theirs, name), (mine, name)


def in_queues(case: Case, **given: object) -> ElasticSimulation:
    return ElasticSimulation(case.workload, case.pool, WeightedFairQueuing(case.config), **given)


@settings(max_examples=50, deadline=None)
@given(cases())
def test_quick_queues_and_predictions_equal_the_plain_simulation(case: Case) -> None:
    quick = in_queues(case, predict=True)
    quick.run()
    plain = PlainPool(case.workload, case.pool, WeightedFairQueuing(case.config))
    plain.run()
    assert_same(quick, plain)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000), configs())
def test_predictions_that_go_on_from_earlier_ones_equal_the_plain_simulation(
    seed: int, config: WfqConfig
) -> None:
    """Bursts behind a long queue: most predictions are the end of the one before."""
    random = np.random.default_rng(seed)
    submit_s = np.cumsum(np.where(random.random(100) < 0.8, 0.0, random.exponential(40.0, 100)))
    size_s = random.choice([0.2, 2.0, 30.0, 400.0], 100) * random.exponential(1.0, 100)
    gpus = random.choice([1, 1, 1, 2, 4], 100)
    curve = SpeedUp((0.0, 1.0, 1.9, 1.7, 3.2))
    jobs = [
        elastic_job(at, *map(float, sizes), int(gpus[at]), curve)
        for at, sizes in enumerate(zip(submit_s, size_s, strict=True))
    ]
    case = Case(Workload(tuple(jobs), {}), Pool(5), config)
    quick = in_queues(case, predict=True)
    quick.run()
    plain = PlainPool(case.workload, case.pool, WeightedFairQueuing(config))
    plain.run()
    assert_same(quick, plain)


def test_relaxed_caps_take_gpus_from_a_job_without_work() -> None:
    """Caps are relaxed at the very moment at which a job without work could start."""
    slow = SpeedUp((0.0, 1.0, 0.56, 5.96, 7.74))
    drawn = [
        (0.0, 977.7, 4, slow),
        (1.0, 2.0, 2, SpeedUp((0.0, 1.0, 1.66))),
        (1.0, 60.0, 8, SpeedUp((0.0, 1.0, 4.95, 4.5, 7.52, 3.15, 2.32))),
        (3.5, 977.7, 2, SpeedUp((0.0, 1.0, 4.0))),
        (4.5, 977.7, 1, SpeedUp.linear(1)),
        (5.5, 0.0, 1, SpeedUp.linear(1)),
        (5.5, 1e-7, 4, slow),
    ]
    jobs = tuple(elastic_job(at, *given) for at, given in enumerate(drawn))
    case = Case(Workload(jobs, {}), Pool(7), WfqConfig((inf,), (1.0,), 0.776, 0.1))
    quick = in_queues(case, predict=True)
    quick.run()
    plain = PlainPool(case.workload, case.pool, WeightedFairQueuing(case.config))
    plain.run()
    assert_same(quick, plain)


@settings(max_examples=25, deadline=None)
@given(case=cases())
def test_whole_gpus_are_predicted_as_a_plain_simulation_plays_them(case: Case) -> None:
    pool = replace(case.pool, whole=True)
    quick = ElasticSimulation(case.workload, pool, WeightedFairQueuing(case.config), predict=True)
    quick.run()
    plain = PlainPool(case.workload, pool, WeightedFairQueuing(case.config))
    plain.run()
    assert_same(quick, plain)


def rigid(case: Case, *, first: int = 0) -> Case:
    """The same jobs in whole GPUs, all or nothing; those before `first` stay as they are."""
    jobs = tuple(
        job if at < first else replace(job, elasticity=replace(job.elasticity, min_gpus=job.gpus))
        for at, job in enumerate(case.workload.jobs)
        if job.gpus <= case.pool.gpus
    )
    return replace(case, workload=Workload(jobs, {}), pool=replace(case.pool, whole=True))


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 3))
def test_rigid_jobs_are_predicted_as_a_plain_simulation_plays_them(case: Case, elastic: int) -> None:
    case = rigid(case, first=elastic)
    quick = in_queues(case, predict=True)
    quick.run()
    plain = PlainPool(case.workload, case.pool, WeightedFairQueuing(case.config))
    plain.run()
    assert_same(quick, plain)


@pytest.mark.parametrize("whole", [False, True])
@settings(max_examples=25, deadline=None)
@given(case=cases())
def test_gpus_are_conserved_and_used_and_time_goes_on(whole: bool, case: Case) -> None:
    case = replace(case, pool=replace(case.pool, whole=whole))
    simulation = in_queues(case)
    before_s = 0.0
    while simulation.step():
        assert simulation.now_s >= before_s
        before_s = simulation.now_s
        active = simulation.active
        given_gpus = sum(job.gpus for job in active)
        wanted = min(case.pool.gpus, sum(job.demand for job in active))
        assert all(0 <= job.gpus <= job.demand for job in active)
        # Water-filling leaves a residual that is not worth another round.
        assert given_gpus == pytest.approx(wanted, abs=1e-9 if whole else 1.1e-3)
    assert sorted(job.index for job in simulation.ended) == list(range(len(case.workload)))
    assert not simulation.active
    for job in simulation.ended:
        fastest_s = job.service_s / max(job.speed_up.values)
        assert job.end_time_s - job.submit_time_s >= fastest_s - 1e-6


@pytest.mark.parametrize("whole", [False, True])
@settings(max_examples=20, deadline=None)
@given(case=cases(), part=st.floats(0.0, 1.0))
def test_a_simulation_goes_on_from_any_state(whole: bool, case: Case, part: float) -> None:
    """A live cluster hands over jobs in the middle of their runs; nothing else may come of them."""
    case = replace(case, pool=replace(case.pool, whole=whole))
    through = in_queues(case)
    through.run()
    first = in_queues(case)
    first.run(until_s=part * through.now_s)

    def hand_over() -> list[ActiveJob]:
        active_count = ActiveJobCount(first.active_count.events, first.active_count.jobs)
        return [job.copy(active_count) for job in first.active]

    handed_over = hand_over()
    came = len(first.ended) + len(handed_over)
    second = ElasticSimulation(
        Workload(case.workload.jobs[came:], {}),
        case.pool,
        WeightedFairQueuing(case.config),
        active=handed_over,
        now_s=first.now_s,
    )
    predicted = {job.index: second.predict_end_s(job) for job in second.active}
    alone = ElasticSimulation(
        Workload((), {}),
        case.pool,
        WeightedFairQueuing(case.config),
        active=hand_over(),
        now_s=first.now_s,
    )
    alone.run()
    assert predicted == {job.index: job.end_time_s for job in alone.ended}
    second.run()
    ends = {job.job.job_id: job.end_time_s for job in (*first.ended, *second.ended)}
    assert ends == {job.job.job_id: job.end_time_s for job in through.ended}


def test_progress_is_reported_to_its_end() -> None:
    jobs = tuple(elastic_job(at, 0.0, 1.0, 1, SpeedUp.linear(1)) for at in range(600))
    seen = []
    simulation = ElasticSimulation(
        Workload(jobs, {}),
        Pool(7),
        ElasticFifoRule(),
        progress=lambda done, total, what: seen.append((done, total)),
    )
    simulation.run()
    assert seen == [(250, 600), (500, 600), (600, 600)]
    assert simulation.cpu_s > 0


def test_what_can_never_end_is_refused() -> None:
    curve = SpeedUp.linear(4)
    rigid = Job("rigid", "all", None, 9, 0.0, 10.0)
    with pytest.raises(BadInputError, match="'rigid' asks for 9 GPUs, 9 at least, of a pool of 8"):
        ElasticSimulation(Workload((rigid,), {}), Pool(8, whole=True), ElasticFifoRule())
    simulation = ElasticSimulation(Workload((rigid,), {}), Pool(8), ElasticFifoRule())  # fractions will do
    simulation.run()
    assert simulation.now_s == 11.25
    with pytest.raises(BadInputError, match="0 GPUs"):
        ElasticSimulation(Workload((), {}), Pool(0), ElasticFifoRule())
    active_count = ActiveJobCount()
    jobs = [ActiveJob(elastic_job(at, 0.0, 5.0, 1, curve), at, active_count) for at in (1, 0)]
    with pytest.raises(BadInputError, match="out of order"):
        ElasticSimulation(Workload((), {}), Pool(8), ElasticFifoRule(), active=jobs)
    with pytest.raises(BadInputError, match="efficiency_step"):
        WfqConfig((inf,), (1.0,), 0.5, 1e-9)
