"""A month of a cluster of Saturn's size under every policy, and a million jobs under FIFO."""

import json
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster_logs.ingest import read_jobs_file
from cluster_logs.readers.nodes_file import read_nodes_file
from cluster_logs.synthetic.generator import synthesize
from pipeline.validation.replay_inputs import with_profiles
from simulator.cluster.spec import ClusterSpec
from simulator.policies.registry import policy_names
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload

SATURN, MONTH_DAYS = "helios-saturn", 30
# The synthetic log has 3,915 jobs a day; so many days hold a million.
MILLION, MILLION_DAYS = 1_000_000, 260
PROCESSES = 2
GIB = 2**30
# Without a model at hand, sharing scores follow the measured utilisation: Tiny, Medium or Jumbo.
MEDIUM_FROM_PCT, JUMBO_FROM_PCT = 40.0, 75.0


@cache
def saturn_month() -> Scenario:
    """A synthetic month of Saturn's size, noisy estimates and sharing scores included."""
    made = synthesize(SATURN, MONTH_DAYS, seed=0)
    durations = made.jobs["duration_s"].to_numpy(dtype=float)
    noise = np.random.default_rng(0).standard_normal(len(durations))
    scores = np.digitize(made.jobs["gpu_util_pct"].to_numpy(dtype=float), [MEDIUM_FROM_PCT, JUMBO_FROM_PCT])
    workload = Workload.from_jobs(made.jobs, estimated_duration_s=np.maximum(1.0, durations * np.exp(noise)))
    profiles = [None] * len(made.jobs)
    for row, job in zip(workload.rows.tolist(), workload.jobs, strict=True):
        if job.profile is not None:
            profiles[row] = replace(job.profile, sharing_score=int(scores[row]))
    return Scenario(with_profiles(workload, profiles), ClusterSpec.from_nodes(made.nodes))


def replay_month(policy: str) -> dict[str, Any]:
    """Replay the month under one policy; CPU seconds from the workload to the table of results."""
    found = saturn_month()
    began = process_time()
    summary = simulate(Scenario(found.workload, found.cluster), policy).summary
    return {**summary, "cpu_s": process_time() - began}


def month_table() -> list[str]:
    """All policies in two processes."""
    found = saturn_month()
    began = perf_counter()
    # Forked processes have the month already.
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("fork")) as pool:
        rows = list(pool.map(replay_month, policy_names()))
    wall_s = perf_counter() - began
    size = f"{found.cluster.total_gpus:,} GPUs, {len(found.cluster.virtual_clusters)} virtual clusters"
    lines = [
        f"Data: synthetic, `{SATURN}`, {MONTH_DAYS} days, seed 0: {len(found.workload):,} jobs, {size}.",
        "",
        "| policy | CPU s | jobs per CPU s | mean JCT s | mean queuing s | preemptions | colocated jobs |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        "| {policy} | {cpu_s:.1f} | {jobs_per_cpu_s:,.0f} | {mean_jct_s:,.0f} | {mean_queuing_delay_s:,.0f} "
        "| {preemptions:,} | {colocated_jobs:,} |".format(**row)
        for row in rows
    ]
    total_s = sum(row["cpu_s"] for row in rows)
    said = f"{wall_s:.0f} s from start to end, {total_s:.0f} CPU s"
    lines += ["", f"All {len(rows)} policies in {PROCESSES} processes: {said}."]
    return lines


def replay_file(jobs: Path, nodes: Path) -> dict[str, float]:
    """Read a table of jobs and replay it under FIFO; CPU seconds of each part, and the peak of memory."""
    moments = [process_time()]
    frame, _ = read_jobs_file(str(jobs), "reference-csv")
    moments.append(process_time())
    workload = Workload.from_jobs(frame)
    del frame
    moments.append(process_time())
    cluster = ClusterSpec.from_nodes(read_nodes_file(str(nodes)))
    summary = simulate(Scenario(workload, cluster), "fifo").summary
    moments.append(process_time())
    read_s, made_s, simulated_s = np.diff(moments)
    return {
        "jobs": summary["jobs"],
        "read_s": read_s,
        "workload_s": made_s,
        "simulate_s": simulated_s,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB,
    }


def write_million(jobs: Path, nodes: Path) -> None:
    """Write the table of a million jobs, and that of its cluster's nodes."""
    made = synthesize(SATURN, MILLION_DAYS, seed=0)
    columns = ["job_id", "virtual_cluster", "user", "gpus", "submit_time", "duration_s"]
    table = made.jobs[columns].head(MILLION)
    table.assign(estimated_duration_s=table["duration_s"].clip(lower=1.0)).to_csv(jobs, index=False)
    made.nodes[["virtual_cluster", "nodes"]].to_csv(nodes, index=False)


def million_table() -> list[str]:
    """A million jobs in a fresh process, which reads them from a file."""
    with tempfile.TemporaryDirectory() as folder:
        jobs, nodes = Path(folder) / "jobs.csv", Path(folder) / "nodes.csv"
        write_million(jobs, nodes)
        began = perf_counter()
        done = subprocess.run(
            [sys.executable, __file__, "--replay", str(jobs), str(nodes)],
            check=True,
            capture_output=True,
            text=True,
        )
        wall_s = perf_counter() - began
    found = json.loads(done.stdout)
    return [
        f"Data: synthetic, `{SATURN}`, {MILLION_DAYS} days, seed 0; the first {MILLION:,} jobs as a CSV.",
        "",
        "| part | |",
        "| --- | ---: |",
        f"| read the table | {found['read_s']:.1f} CPU s |",
        f"| make the workload | {found['workload_s']:.1f} CPU s |",
        f"| simulate {found['jobs']:,} jobs under FIFO | {found['simulate_s']:.1f} CPU s |",
        f"| all of it, start of the process included | {wall_s:.0f} s |",
        f"| peak memory | {found['peak_gib']:.2f} GiB |",
    ]


if __name__ == "__main__":
    what, *paths = sys.argv[1:]
    if what == "--write":
        write_million(*map(Path, paths))
    elif what == "--replay":
        print(json.dumps(replay_file(*map(Path, paths))))
    else:
        sys.exit("This file is a part of bench_simulator.py.")
