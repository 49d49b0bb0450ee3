"""What a job costs on clusters of growing size: nodes of 8 GPUs, nodes of one, and one pool without nodes.

Half of the jobs ask for 1 to 8 GPUs, half for a share of the cluster, so gangs grow with it and about as many
jobs run at once on each size. `python benchmarks/placement_sizes.py fifo easy` measures these policies.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1]))

from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

POLICIES = ("fifo", "sjf", "easy", "srtf", "tiresias", "lucid", "clarity")
GPUS = (64, 1_024, 9_216, 65_536)
LAYOUTS = {"nodes of 8": 8, "nodes of 1": 1, "a pool": 0}
SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4)
LOAD = 0.9


def cluster_of(gpus: int, gpus_per_node: int) -> ClusterSpec:
    """Return a cluster of so many GPUs; 0 a node: without nodes."""
    if not gpus_per_node:
        return ClusterSpec.of_gpus(gpus)
    return ClusterSpec({"all": gpus // gpus_per_node}, gpus_per_node)


def shared_out(jobs: int, gpus: int, seed: int = 1) -> Workload:
    """Return jobs whose gangs are shares of a cluster of so many GPUs; the same at each size but for that."""
    random = Random(seed)
    demands, durations_s = [], []
    for _ in range(jobs):
        share, small, large = random.choice(SHARES), random.choice((1, 1, 2, 4, 8)), random.random() < 0.5
        demands.append(max(1, round(share * gpus / 8) * 8 if large else small))
        durations_s.append(10.0 + int(random.lognormvariate(6, 1.2)))
    mean_gpu_s = fmean(demand * duration for demand, duration in zip(demands, durations_s, strict=True))
    gap_s = mean_gpu_s / (LOAD * gpus)
    rows, at_s = [], 0.0
    for i, (demand, duration_s) in enumerate(zip(demands, durations_s, strict=True)):
        at_s += random.expovariate(1 / gap_s)
        rows.append(
            Job(
                job_id=str(i),
                virtual_cluster="all",
                user=f"user{random.randint(0, 99)}",
                gpus=demand,
                submit_time_s=float(int(at_s)),
                duration_s=duration_s,
                estimated_duration_s=max(1.0, duration_s * random.lognormvariate(0, 1)),
                order=i,
                profile=JobProfile(
                    random.uniform(5, 100), random.uniform(5, 80), 6_000.0, sharing_score=random.randint(0, 2)
                ),
                template=f"program{random.randint(0, 299)}",
            )
        )
    return Workload(tuple(rows), {})


def cost_us(policy: str, workload: Workload, cluster: ClusterSpec, repeats: int = 3) -> float:
    """Return the least CPU time of a job in several replays by the Python engine (us)."""
    summaries = (
        simulate(Scenario(workload, cluster), policy, engine="python").summary for _ in range(repeats)
    )
    return min(1e6 / float(summary["jobs_per_cpu_s"]) for summary in summaries)


def sizes_table(
    policies: Sequence[str] = POLICIES, jobs: int = 2_000, repeats: int = 3, gpus: Sequence[int] = GPUS
) -> list[str]:
    """Measure, and return the lines of a Markdown table."""
    said = (
        f"{jobs:,} synthetic jobs, half of them gangs that grow with the cluster; CPU time of a job in the "
        f"Python engine (us), the best of {repeats} runs. Growth: from {gpus[0]:,} GPUs to {gpus[-1]:,}."
    )
    lines = [
        said,
        "",
        "| policy | cluster | " + " | ".join(f"{size:,} GPUs" for size in gpus) + " | growth |",
        "| --- | --- | " + " | ".join("---:" for _ in gpus) + " | ---: |",
    ]
    workloads = {size: shared_out(jobs, size) for size in gpus}
    for policy in policies:
        for layout, size in LAYOUTS.items():
            costs = [
                cost_us(policy, workload, cluster_of(total, size), repeats)
                for total, workload in workloads.items()
            ]
            said = " | ".join(f"{cost:.1f}" for cost in costs)
            lines.append(f"| {policy} | {layout} | {said} | {costs[-1] / costs[0]:.2f} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


if __name__ == "__main__":
    print("\n".join(sizes_table(sys.argv[1:] or POLICIES)))
