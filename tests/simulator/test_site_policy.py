"""A declared site is replayed as Slurm's two schedulers would: order, waits and preemption."""

import pytest

from cluster_logs.site.rules import PreemptionRules, PriorityRules, Qos, SchedulerRules, SiteRules, User
from cluster_logs.site.site_file import site_data
from foundation.errors import BadInputError
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView
from simulator.policies.registry import load_policy
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload


def job(number: int, at_s: float, gpus: int, run_s: float, limit_s: float, **more: str) -> Job:
    return Job(str(number), "main", more.pop("user", "ada"), gpus, at_s, run_s, time_limit_s=limit_s, **more)  # type: ignore[arg-type]


def replay(site: SiteRules, *jobs: Job, nodes: int = 1) -> list[JobView]:
    workload = Workload(jobs, {})
    simulation = Simulation(
        Scenario(workload, ClusterSpec({"main": nodes}, 8)), load_policy("site", {"site": site_data(site)})
    )
    simulation.run()
    return simulation.ended_jobs()


def starts(site: SiteRules, *jobs: Job, nodes: int = 1) -> list[float | None]:
    return [each.first_start_time_s for each in replay(site, *jobs, nodes=nodes)]


def test_a_short_job_is_backfilled_at_a_cycle_and_a_long_one_is_not() -> None:
    jobs = (
        job(1, 1, 4, 300, 300),
        job(2, 2, 8, 100, 120),  # waits for the whole node until 303 s
        job(3, 3, 4, 60, 120),  # done by then: started by the cycle at 30 s
        job(4, 4, 4, 60, 600),  # would hold the second job up
    )
    first, second, third, fourth = starts(SiteRules(), *jobs)
    assert (first, third) == (3, 30)  # 3 s after the cycle at 0 s, and at a backfill cycle
    assert second is not None
    assert fourth is not None
    assert 303 <= second <= 306
    assert fourth > second


def test_without_backfill_nobody_passes_the_first() -> None:
    jobs = (job(1, 1, 4, 300, 300), job(2, 2, 8, 100, 120), job(3, 3, 4, 60, 120))
    _, second, third = starts(SiteRules(scheduler=SchedulerRules(type="builtin")), *jobs)
    assert second is not None
    assert third is not None
    assert third > second


def test_the_user_that_used_less_goes_first() -> None:
    site = SiteRules(
        priority=PriorityRules(type="multifactor", weight_fair_share=1000, calc_period_s=60),
        users=(User(name="ada", account="root"), User(name="bob", account="root")),
    )
    jobs = (job(1, 1, 8, 200, 200), job(2, 2, 8, 60, 60), job(3, 3, 8, 60, 60, user="bob"))
    _, of_ada, of_bob = starts(site, *jobs)
    assert of_ada is not None
    assert of_bob is not None
    assert of_bob < of_ada


def test_a_limit_of_a_qos_holds_back_its_user_alone() -> None:
    site = SiteRules(
        scheduler=SchedulerRules(enforce_limits=True), qos=(Qos(name="normal", max_jobs_per_user=1),)
    )
    jobs = (job(1, 1, 1, 200, 200), job(2, 2, 1, 60, 60), job(3, 3, 1, 60, 60, user="bob"))
    _, second, third = starts(site, *jobs)
    assert second is not None
    assert third is not None
    assert third < 10
    assert second > 200


@pytest.mark.parametrize("mode", ["requeue", "off"])
def test_a_job_of_a_higher_qos_takes_the_gpus_of_a_lower_one(mode: str) -> None:
    site = SiteRules(
        preemption=PreemptionRules(type="qos", mode=mode),  # type: ignore[arg-type]
        qos=(Qos(name="low"), Qos(name="high", preempts=("low",))),
    )
    jobs = (job(1, 1, 8, 300, 300, qos="low"), job(2, 50, 8, 60, 60, qos="high"))
    low, high = replay(site, *jobs)
    assert high.first_start_time_s is not None
    if mode == "off":
        assert (low.preemptions, low.end_time_s) == (0, 303)
        assert high.first_start_time_s >= 303
    else:
        assert low.preemptions == 1
        assert high.first_start_time_s < 60
        assert low.end_time_s is not None
        assert low.end_time_s >= high.first_start_time_s + 121 + 300  # from zero, when it may start again


def test_what_is_no_site_is_refused() -> None:
    with pytest.raises(BadInputError, match="fancy"):
        load_policy("site", {"site": {"priority": {"type": "fancy"}}})
