"""Packing: its rules on workloads small enough to follow, and its memory against a search without any."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.actions import Colocate, Preempt
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation, sample_workload
from simulator.engine.simulation import Simulation
from simulator.policies.lucid import Lucid, LucidSettings
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

NODE = ClusterSpec({"vc": 1}, 8)


def profile(score=0, mem=5_000.0, util=30.0):
    return JobProfile(util, 10, mem, job_type="t", sharing_score=score)


def job(i, submit, gpus, duration, *, profile=None, **more):
    return Job(f"j{i}", "vc", "u", gpus, float(submit), duration, duration, i, profile, **more)


class KnowsAll(Lucid):
    """As if every job had been measured before: one node suffices to look at packing alone."""

    def __init__(self, **chosen):
        super().__init__(LucidSettings(profiling_nodes=0, packs_unmeasured=True, **chosen))


def run(*jobs, policy=None, cluster=NODE, **chosen):
    return simulate(Scenario(Workload(jobs, {}), cluster), policy or KnowsAll(**chosen))


def test_of_two_partners_the_one_that_ends_closest_is_taken():
    jobs = [
        job(0, 0, 4, 10_000, profile=profile()),
        job(1, 0, 4, 3_000, profile=profile()),
        job(2, 10, 4, 2_500, profile=profile()),
    ]
    result = run(*jobs)
    assert result.jobs["colocated"].tolist() == [False, True, True]
    without_estimates = run(*jobs, order="submission")
    assert without_estimates.jobs["colocated"].tolist() == [True, False, True]


def test_a_partner_is_free_again_when_the_other_has_gone():
    jobs = [job(0, 0, 8, 10_000, profile=profile())] + [
        job(i, 100 * i, 8, 50, profile=profile()) for i in range(1, 5)
    ]
    result = run(*jobs)
    assert result.jobs["colocated"].all()
    assert result.jobs["queuing_delay_s"].tolist() == [0] * 5


def test_a_job_measured_while_it_runs_becomes_a_partner_then():
    policy = Lucid(LucidSettings(profiling_share_max=0.5, profiling_nodes=1, profiling_limit_s=200.0))
    jobs = [job(0, 0, 8, 5_000, profile=profile()), job(1, 10, 8, 4_000, profile=profile())]
    result = run(*jobs, policy=policy, cluster=ClusterSpec({"vc": 2}, 8))
    # j0 finds the node idle and is measured in place until 200; j1 is profiled from 10 to 210 and joins it.
    assert result.jobs["profiled"].tolist() == [False, True]
    assert result.jobs["colocated"].tolist() == [True, True]
    assert result.jobs["lost_s"].tolist() == [0, 200]
    assert result.jobs["queuing_delay_s"].tolist() == [0, 0]
    later = Lucid(
        LucidSettings(
            profiling_share_max=0.5, profiling_nodes=1, profiling_limit_s=200.0, profiling_in_place=True
        )
    )
    slow = [job(0, 0, 8, 5_000, profile=profile(), long_cold_start=True), jobs[1]]
    result = run(*slow, policy=later, cluster=ClusterSpec({"vc": 2}, 8))
    # Its user says that it starts up slowly: measured at 600, and j1 waits from 210 on.
    assert result.jobs["queuing_delay_s"].tolist() == [0, 390]


def test_the_later_of_a_pair_goes_when_utilisation_is_unstable():
    heavy = JobProfile(100, 10, 5_000, job_type="t", sharing_score=2)
    changing = job(0, 0, 8, 5_000, profile=profile(), phase=(1_000.0, heavy))
    steady = job(1, 10, 8, 4_000, profile=profile())
    evicting = run(changing, steady)
    # From 10 on both run at full speed; at 1,000 j1 has to go, loses 990 s and waits for j0's end.
    assert evicting.jobs["lost_s"].tolist() == [0, 990]
    assert evicting.jobs["end_time_s"].tolist() == [5_000, 9_000]
    assert evicting.jobs["preemptions"].tolist() == [0, 1]
    tolerant = run(changing, steady, evict_unstable=False)
    assert tolerant.jobs["preemptions"].sum() == 0
    assert tolerant.jobs["end_time_s"].iloc[0] > 5_000  # slowed down by its partner


def test_an_evicted_job_starts_again_at_once_where_gpus_are_idle():
    heavy = JobProfile(100, 10, 5_000, job_type="t", sharing_score=2)
    jobs = [
        job(0, 0, 8, 5_000, profile=profile(), phase=(1_000.0, heavy)),
        job(1, 0, 8, 500, profile=profile(score=2)),
        job(2, 10, 8, 4_000, profile=profile()),
    ]
    result = run(*jobs, cluster=ClusterSpec({"vc": 2}, 8))
    assert result.jobs["preemptions"].tolist() == [0, 0, 1]
    assert result.jobs["end_time_s"].tolist() == [5_000, 500, 5_000]
    assert result.jobs["queuing_delay_s"].tolist() == [0, 0, 0]


def test_naive_packing_respects_memory_and_nothing_else():
    jumbo = profile(score=2, util=90)
    pair = [job(0, 0, 8, 5_000, profile=jumbo), job(1, 0, 8, 4_000, profile=jumbo)]
    assert not run(*pair).jobs["colocated"].any()
    assert run(*pair, packing="naive").jobs["colocated"].all()
    big = profile(score=0, mem=20_000)
    too_big = [job(0, 0, 8, 5_000, profile=big), job(1, 0, 8, 4_000, profile=big)]
    assert not run(*too_big, packing="naive").jobs["colocated"].any()
    distributed = [job(i, 0, 16, 5_000 - i, profile=profile()) for i in range(2)]
    two = ClusterSpec({"vc": 2}, 8)
    assert not run(*distributed, cluster=two).jobs["colocated"].any()
    assert run(*distributed, cluster=two, packing="naive").jobs["colocated"].all()


class Forgetful(KnowsAll):
    """Sees each snapshot for the first time: pools, queues and all, as behind a live scheduler."""

    def decide(self, snapshot: Snapshot):
        self.packing.memories.clear()
        for pool in snapshot.changed:
            pool.queue._newcomers = list(pool.queue)
        return super().decide(snapshot)


def possible_pair(settings, waiting, running, now_s) -> bool:
    mine, theirs = waiting.profile, running.profile
    return (
        running.partner is None
        and mine is not None
        and theirs is not None
        and running.placement is not None
        and len(running.placement) == 1
        and running.gpus == waiting.gpus
        and mine.sharing_score + theirs.sharing_score <= 2
        and mine.gpu_mem_mib + theirs.gpu_mem_mib < settings.gpu_memory_mib
        and running.start_time_s + running.estimate_s >= now_s + settings.partner_min_remaining_s
        and not (waiting.unstable or running.unstable)
    )


class Watched(KnowsAll):
    """Checks after each decision that no job was left waiting beside a possible partner."""

    def decide(self, snapshot: Snapshot):
        actions = super().decide(snapshot)
        if any(isinstance(action, Preempt) for action in actions):
            return actions  # asked again at once
        taken = {action.partner for action in actions if isinstance(action, Colocate)}
        served = {action.job for action in actions}
        for pool in snapshot.changed:
            for waiting in pool.queue:
                if waiting in served:
                    continue
                for running in pool.running:
                    missed = running not in taken and possible_pair(
                        self.settings, waiting, running, snapshot.now_s
                    )
                    assert not missed, f"{waiting} could have joined {running} at {snapshot.now_s}"
        return actions


def unsteady(workload: Workload, seed: int) -> Workload:
    """Have some jobs change what they need on their way."""
    random = Random(seed)
    return Workload(
        tuple(
            Job(
                job.job_id, job.virtual_cluster, job.user, job.gpus, job.submit_time_s, job.duration_s,
                job.estimated_duration_s, job.order, job.profile,
                phase=(job.duration_s / 2, profile(2, 9_000, 95)) if random.random() < 0.2 else None,
            )
            for job in workload.jobs
        ),
        {},
    )  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    shape=st.sampled_from(["loaded", "burst"]),
    seed=st.integers(0, 10_000),
    remaining=st.sampled_from([0.0, 300.0]),
)
def test_nobody_waits_beside_a_possible_partner(shape, seed, remaining):
    workload, cluster = sample_workload(shape, seed, jobs=60)
    policy = Watched(partner_min_remaining_s=remaining)
    simulation = AuditedSimulation(Scenario(unsteady(workload, seed), cluster), policy, name="lucid")
    simulation.run()
    assert simulation.completed == 60


@settings(max_examples=15, deadline=None)
@given(shape=st.sampled_from(["loaded", "burst"]), seed=st.integers(0, 10_000))
def test_memory_changes_no_decision(shape, seed):
    workload, cluster = sample_workload(shape, seed, jobs=60)
    remembers = Simulation(Scenario(workload, cluster), KnowsAll())
    forgets = Simulation(Scenario(workload, cluster), Forgetful())
    remembers.run()
    forgets.run()
    columns = ["job_id", "first_start_time_s", "end_time_s", "colocated_s"]
    assert remembers.result().jobs[columns].equals(forgets.result().jobs[columns])


@pytest.mark.parametrize("sharing", ["default", "none"])
def test_pools_of_a_name_are_told_apart(sharing):
    """A live scheduler makes pools anew: what is remembered of an old one must not leak into a new one."""
    policy = KnowsAll(sharing=sharing)
    first = simulate(Scenario(*sample_workload("loaded", 3)), policy)
    again = simulate(Scenario(*sample_workload("loaded", 3)), policy)
    assert first.jobs.equals(again.jobs)
    assert all(isinstance(memory.pool, NodePool) for memory in policy.packing.memories.values())
