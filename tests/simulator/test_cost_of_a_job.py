"""A job costs no more with idle time, and hardly more behind a long queue: in lines run, not in seconds."""

import sys
from dataclasses import replace
from random import Random

import pytest

from simulator.cluster.spec import ClusterSpec
from simulator.policies.fifo import Fifo
from simulator.policies.registry import elastic_policy_names, policy_names
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

SHORT, LONG = 150, 1_200  # jobs in the queue
CASES = [(policy, {}) for policy in policy_names()] + [
    ("srtf", {"selection": "quota"}),
    ("tiresias", {"selection": "quota"}),
]
# An elastic policy weighs all jobs against each other at each decision, and Slurm's backfill scheduler tests
# all that wait in each of its cycles: their cost grows with the queue.
WALKERS = {*elastic_policy_names(), "site"}
QUEUES = [case for case in CASES if case[0] not in WALKERS]
COUNTED = ("simulator", "parts.", __name__)  # modules
GROWTH_MAX = 2.0  # the logarithm of the queue grows by 1.4; a walk along it at each decision gives 4 and more
# Each job that begins to run may be a partner for all that wait, until they have been refused.
PACKING, GROWTH_MAX_PACKING = ("lucid", "clarity"), 4.0


def lines_run(workload, cluster, policy, settings=None):
    """Simulate, and count the lines of the simulator that are run meanwhile."""
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        if event == "line":
            lines += 1
        elif event == "call" and not frame.f_globals.get("__name__", "").startswith(
            ("simulator", "parts.", __name__)
        ):
            return None
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = simulate(Scenario(workload, cluster), policy, settings=settings)
    finally:
        sys.settrace(before)
    return lines, result


def growth(policy, settings=None):
    """The lines that a job costs behind a long queue, over those that it costs behind a short one."""
    cluster = ClusterSpec({"vc": 4}, 8)
    short, _ = lines_run(queued(SHORT), cluster, policy, settings)
    long, result = lines_run(queued(LONG), cluster, policy, settings)
    assert result.summary["queued_jobs"] > LONG / 2
    return (long / LONG) / (short / SHORT)


def queued(jobs):
    """All are submitted before the first has ended."""
    random = Random(3)
    return Workload(
        tuple(
            Job(
                job_id=str(i),
                virtual_cluster="vc",
                user=f"user{random.randint(0, 9)}",
                gpus=random.choice((1, 1, 2, 4, 8, 16)),
                submit_time_s=float(i * 1_200 // jobs),
                duration_s=float(random.randint(1_200, 6_000)),
                estimated_duration_s=float(random.randint(600, 12_000)),
                order=i,
                profile=JobProfile(50.0, 30.0, 6_000.0, sharing_score=random.randint(0, 2)),
                template=f"program{random.randint(0, 30)}",
            )
            for i in range(jobs)
        ),
        {},
    )


@pytest.mark.slow
@pytest.mark.thorough("how a cost grows")
@pytest.mark.parametrize(("policy", "settings"), QUEUES, ids=str)
def test_the_cost_of_a_job_hardly_grows_with_the_queue(policy, settings):
    assert growth(policy, settings) < (GROWTH_MAX_PACKING if policy in PACKING else GROWTH_MAX)


class _Walks(Fifo):
    def decide(self, snapshot):
        for pool in snapshot.changed:
            for job in pool.queue:
                self.last = job
        return super().decide(snapshot)


def test_the_count_notices_a_policy_that_walks_along_the_queue():
    assert growth(_Walks()) > GROWTH_MAX_PACKING


@pytest.mark.slow
@pytest.mark.thorough("how a cost grows")
@pytest.mark.parametrize(("policy", "settings"), CASES, ids=str)
def test_idle_time_costs_nothing(policy, settings):
    cluster = ClusterSpec({"vc": 200}, 8)  # no job waits, now or then
    near = queued(SHORT)
    far = replace(
        near, jobs=tuple(replace(job, submit_time_s=1_000 * job.submit_time_s) for job in near.jobs)
    )
    week, _ = lines_run(near, cluster, policy, settings)
    years, _ = lines_run(far, cluster, policy, settings)
    assert years < 1.5 * week  # rounds are shared by fewer events
