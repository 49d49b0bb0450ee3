"""Elastic policies on clusters with nodes: what holds for any jobs, and where both worlds must agree."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from parts.elastic.allocation import Pool
from parts.elastic.engine import ElasticSimulation
from simulator.actions import Preempt, Resize
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation, check_policy, check_work, sample_changes, sample_workload
from simulator.engine.simulation import Simulation
from simulator.job_view import RunState
from simulator.policies.registry import elastic_policy_names, load_policy
from simulator.policy import RunCosts
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity, SpeedUp
from simulator.workload.workload import Workload

NAMES = elastic_policy_names()
CLUSTER = ClusterSpec({"a": 2, "b": 3}, 4)


def made_workload(seed, names=("a", "b"), apart=False):
    """Rigid and elastic jobs of all kinds; `apart`: no two alike, and no two events at the same moment."""
    random = Random(seed)
    rows = []
    for i in range(random.randint(1, 25)):
        gpus = random.choice([1, 2, 3, 4, 6, 8])
        submit_s, duration_s = float(random.randint(0, 600)), float(random.choice([0, 1, 90, 400, 900]))
        if apart:
            submit_s, duration_s = submit_s + i * 0.0137, 1 + duration_s * random.random()
        elasticity = None
        if random.random() < 0.6:
            speeds = [0.0, 1.0]
            while len(speeds) <= gpus:  # rising, flat and falling
                speeds.append(speeds[-1] + random.choice([-0.1, 0.0, 0.3, 0.7, 1.0]))
            curve = SpeedUp(tuple(speeds))
            elasticity = Elasticity(duration_s * curve.at(gpus), curve, random.randint(0, gpus))
        estimate_s = float(random.randint(1, 2_000))
        cluster = random.choice(names)
        rows.append(
            Job(f"j{i}", cluster, "u", gpus, submit_s, duration_s, estimate_s, i, elasticity=elasticity)
        )
    rows.sort(key=lambda job: (job.submit_time_s, job.order))
    return Workload(tuple(rows), {})


seeds = st.integers(0, 1_000_000)


class WorkConserving(AuditedSimulation):
    """Also checks after each step that no waiting job could use what is idle."""

    def step(self, until_s=float("inf")):
        stepped = super().step(until_s)
        for pool in self.pools.values():
            waiting = sorted(pool.queue, key=lambda view: view.index)
            if self.policy.arrivals_never_delay:
                waiting = waiting[:1]
            elif any(self.now_s - view.submit_time_s >= patience_s(view) for view in waiting):
                continue  # GPUs may be kept for somebody whom others have overtaken for long
            for view in waiting:
                if view.elastic is None:
                    assert pool.free.find(view.gpus) is None, (view, self.now_s)
                else:
                    assert pool.free.total < view.min_gpus, (view, self.now_s)
        return stepped


def patience_s(view):
    elasticity = view.job.elasticity
    return view.job.duration_s if elasticity is None else elasticity.service_s / view.gpus


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_capacity_work_and_order_hold_and_nothing_idles_that_somebody_could_use(name, seed):
    workload = made_workload(seed)
    policy = load_policy(name)
    simulation = WorkConserving(Scenario(workload, CLUSTER), policy, name=name)
    simulation.run()
    check_work(simulation.jobs, name)
    assert {view.state for view in simulation.jobs} == {RunState.COMPLETED}
    for view in simulation.jobs:
        if view.elastic is None:
            assert view.resizes == 0
        if policy.rule.keeps_running:
            assert view.preemptions == 0


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(
    seed=seeds,
    resize_s=st.sampled_from([0.0, 20.0, 300.0]),
    preemption_s=st.sampled_from([0.0, 60.0]),
    sizes=st.sampled_from(["true", "estimated"]),
)
@example(seed=13988, resize_s=300.0, preemption_s=60.0, sizes="true")  # resized and preempted at one moment
def test_restarts_cost_what_they_are_said_to(name, seed, resize_s, preemption_s, sizes):
    workload = made_workload(seed)
    made = load_policy(name, {"resize_s": resize_s, "preemption_s": preemption_s, "sizes": sizes})
    simulation = AuditedSimulation(Scenario(workload, CLUSTER), made, name=name)
    simulation.run()
    check_work(simulation.jobs, name)
    for view in simulation.jobs:
        most = view.resizes * resize_s + view.preemptions * preemption_s
        assert view.overhead_s <= most + 1e-6
        assert bool(view.overhead_s) <= bool(most)


class Watched(Simulation):
    """Keeps all actions of its policy that are not starts."""

    def _decide(self):
        decide = self.policy.decide
        self.others = getattr(self, "others", [])

        def watched(snapshot):
            actions = decide(snapshot)
            self.others += [action for action in actions if isinstance(action, Resize | Preempt)]
            return actions

        self.policy.decide = watched
        try:
            super()._decide()
        finally:
            self.policy.decide = decide


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_without_resizes_jobs_are_only_started_and_on_all_of_their_gpus(name, seed):
    workload = made_workload(seed)
    made = load_policy(name, {"resizes": False})
    simulation = Watched(Scenario(workload, CLUSTER), made, name=name)
    simulation.run()
    assert simulation.others == []
    for view in simulation.jobs:
        assert view.attained_s == pytest.approx(view.job.duration_s)
        assert view.state is RunState.COMPLETED


@pytest.mark.parametrize("shape", ["loaded", "gangs", "churn"])
def test_elastic_fifo_of_rigid_jobs_is_fifo(shape):
    workload, cluster = sample_workload(shape, 5)
    changes = () if shape != "churn" else sample_changes(shape, 5, cluster)
    workload = replace(workload, jobs=tuple(replace(job, cancel_time_s=None) for job in workload.jobs))
    fifo, elastic = (
        simulate(
            Scenario(workload, cluster, changes=[c for c in changes if not hasattr(c, "down_s")]), name
        ).jobs
        for name in ("fifo", "elastic_fifo")
    )
    assert elastic["first_start_time_s"].tolist() == fifo["first_start_time_s"].tolist()
    assert elastic["end_time_s"].tolist() == fifo["end_time_s"].tolist()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "themis"])
@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_on_one_node_both_worlds_agree(name, seed):
    """A cluster of a single node has no fragmentation: the pool in whole GPUs is the same thing.

    Not for Themis, under which jobs that have always had all of their GPUs tie: rounding decides.
    """
    workload = made_workload(seed, names=("vc",), apart=True)
    policy = load_policy(name)
    main = Simulation(Scenario(workload, ClusterSpec({"vc": 1}, 8)), policy)
    main.run()
    ends = [view.end_time_s for view in main.jobs]
    events = sorted([*ends, *(job.submit_time_s for job in workload.jobs)])
    if any(b - a < 1e-4 for a, b in pairwise(events)):
        return  # one event at a time there, all of a moment here
    pool = ElasticSimulation(workload, Pool(8, whole=True), policy.rule)
    pool.run()
    expected = {job.job.job_id: (job.end_time_s, job.resizes, job.preemptions) for job in pool.ended}
    for view in main.jobs:
        end_s, resizes, preemptions = expected[view.job.job_id]
        assert view.end_time_s == pytest.approx(end_s, abs=1e-3)
        assert (view.resizes, view.preemptions) == (resizes, preemptions)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "elastic_fifo"])
def test_by_estimates_no_policy_is_an_oracle(name):
    assert load_policy(name).oracle
    made = lambda: load_policy(name, {"sizes": "estimated", "resize_s": 15.0, "preemption_s": 30.0})  # noqa: E731
    assert not made().oracle
    assert list(check_policy(made, name))
    workload, cluster = sample_workload("elastic", 1, jobs=5)
    without = replace(workload, jobs=tuple(replace(job, estimated_duration_s=None) for job in workload.jobs))
    with pytest.raises(BadInputError, match="estimated durations"):
        simulate(Scenario(without, cluster), made())


def test_bad_settings_say_what_is_wrong():
    with pytest.raises(BadInputError, match="true, estimated"):
        load_policy("pcs", {"sizes": "guessed"})
    with pytest.raises(BadInputError, match="resize_s"):
        load_policy("srsf", {"resize_s": -1.0})
    assert load_policy("afs", {"resize_s": 5.0}).costs == RunCosts(resize_s=5.0)


def elastic(number, gpus, submit_s, work_s, least=1):
    curve = SpeedUp.linear(gpus)
    elasticity = Elasticity(work_s, curve, least)
    return Job(f"j{number}", "a", "u", gpus, submit_s, work_s / gpus, None, number, elasticity=elasticity)


def test_a_job_is_not_resized_for_less_than_it_costs():
    """The second job ends 10 s before the first would: two GPUs more save it 5 s."""
    jobs = [elastic(0, 4, 0.0, 210.0), elastic(1, 2, 0.0, 190.0)]
    cluster = ClusterSpec({"a": 1}, 4)

    def ends(resize_s):
        table = simulate(
            Scenario(Workload(tuple(jobs), {}), cluster), "afs", settings={"resize_s": resize_s}
        ).jobs
        return table["resizes"].sum(), table["end_time_s"].max()

    free, dear = ends(0.0), ends(20.0)
    assert free == (1, 100.0)
    assert dear == (0, 105.0)


def test_a_rigid_job_of_a_small_class_starts_in_spite_of_a_flood():
    """The flood needs more than there is; the large job's class has a hundredth of the cluster."""
    flood = [Job(f"s{i}", "a", "u", 1, 20.0 * i, 100.0, None, i) for i in range(400)]
    large = Job("large", "a", "u", 4, 50.0, 300.0, None, 1_000)
    jobs = tuple(sorted([*flood, large], key=lambda job: (job.submit_time_s, job.order)))
    chosen = {"thresholds_s": (500.0, float("inf")), "weights": (0.99, 0.01)}
    table = simulate(Scenario(Workload(jobs, {}), ClusterSpec({"a": 1}, 4)), "pcs", settings=chosen).jobs
    found = table.set_index("job_id")
    share = 0.04  # GPUs of the large job's class: what its work may take
    assert found["preemptions"].sum() == 0
    assert found.loc["large", "first_start_time_s"] <= 50 + 1_200 / share + 100
    # Those who came before were not held up for it.
    assert found.loc["s0", "first_start_time_s"] == 0
