"""How the cost of a job grows with idle time, which it should not, and with the queue's length."""

import sys
from dataclasses import replace
from math import log
from pathlib import Path
from random import Random

from simulator_speed import reference_slice

sys.path.insert(0, str(Path(__file__).parents[1]))

from simulator.cluster.spec import ClusterSpec
from simulator.policies.registry import policy_names
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

IDLE_NODES = 400  # so that hardly any job waits, whether its week takes one week or ten
STRETCH = 10
QUEUES = (1_000, 10_000, 100_000)
QUEUE_NODES = 16


def cpu_per_job_us(found: Scenario, policy: str, repeats: int) -> float:
    """Return the least CPU time of a job in several runs (us)."""
    runs = (
        simulate(Scenario(found.workload, found.cluster, colocation=found.colocation), policy).summary
        for _ in range(repeats)
    )
    return min(1e6 / summary["jobs_per_cpu_s"] for summary in runs)


def idle_table() -> list[str]:
    """The same jobs in one week, and spread over ten."""
    name, found = reference_slice()
    per_cluster = -(-IDLE_NODES // len(found.cluster.virtual_clusters))
    cluster = replace(
        found.cluster, virtual_clusters=dict.fromkeys(found.cluster.virtual_clusters, per_cluster)
    )
    near = replace(found, cluster=cluster)
    stretched = tuple(replace(job, submit_time_s=job.submit_time_s * STRETCH) for job in found.workload.jobs)
    far = replace(near, workload=replace(found.workload, jobs=stretched))
    lines = [
        f"Data: the jobs of {name}, on {IDLE_NODES} nodes; the best of 3 runs.",
        "",
        f"| policy | us a job | us a job over {STRETCH} times the time | ratio |",
        "| --- | ---: | ---: | ---: |",
    ]
    for policy in policy_names():
        one, ten = (cpu_per_job_us(workload, policy, repeats=3) for workload in (near, far))
        lines.append(f"| {policy} | {one:.1f} | {ten:.1f} | {ten / one:.2f} |")
    return lines


def queued_jobs(jobs: int, seed: int = 1) -> Scenario:
    """Jobs that are all submitted before the first has ended: the queue is as long as there are jobs."""
    random = Random(seed)
    rows = []
    for i in range(jobs):
        duration_s = 10_000.0 + int(random.lognormvariate(7, 1.5))
        rows.append(
            Job(
                job_id=str(i),
                virtual_cluster="vc",
                user=f"user{random.randint(0, 99)}",
                gpus=random.choice((1, 1, 1, 1, 2, 4, 8, 8, 16)),
                submit_time_s=i * 10_000.0 / jobs,
                duration_s=duration_s,
                estimated_duration_s=max(1.0, duration_s * random.lognormvariate(0, 1)),
                order=i,
                profile=JobProfile(
                    random.uniform(5, 100), random.uniform(5, 80), 6_000.0, sharing_score=random.randint(0, 2)
                ),
                template=f"program{random.randint(0, 299)}",
            )
        )
    return Scenario(Workload(tuple(rows), {}), ClusterSpec({"vc": QUEUE_NODES}, 8))


def queue_table() -> list[str]:
    """CPU time of a job behind queues of growing length."""
    growth = log(QUEUES[-1]) / log(QUEUES[0])
    lines = [
        f"Synthetic jobs, submitted within 10,000 s to {QUEUE_NODES} nodes of 8 GPUs; none ends earlier.",
        "",
        "| policy | " + " | ".join(f"us a job, queue of {length:,}" for length in QUEUES) + " | growth |",
        "| --- | " + " | ".join("---:" for _ in QUEUES) + " | ---: |",
    ]
    slices = [queued_jobs(length) for length in QUEUES]
    for policy in policy_names():
        costs = [
            cpu_per_job_us(found, policy, repeats=3 if length < 10_000 else 1)
            for length, found in zip(QUEUES, slices, strict=True)
        ]
        said = " | ".join(f"{cost:.1f}" for cost in costs)
        lines.append(f"| {policy} | {said} | {costs[-1] / costs[0]:.2f} |")
    lines += ["", f"The logarithm of the queue's length grows by {growth:.2f}."]
    return lines
