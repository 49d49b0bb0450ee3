"""Replays one scenario in the tree that is imported, and says what the engine took: a process of its own.

    PYTHONPATH=TREE python -P replays.py SCENARIO POLICY RUNS STARTS.csv

Run for a tree of today and for an older one: it uses what both have. The jobs with their starts go to
STARTS.csv. Prints one JSON object: jobs, the least CPU seconds of the engine in at most RUNS runs, and of the
whole call likewise.
"""

import gzip
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from experiments.policies.agreement import load_slice
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

KEPT = ("job_id", "gpus", "submit_time_s", "duration_s", "first_start_time_s")
LONG_S = 5.0  # spent on a replay, after which it is not repeated
GPUS_PER_NODE = 8
WEEK_NODES = 48
# A cliff is a cluster that costs more only because it is larger: few jobs, many GPUs.
POOL_GPUS, POOL_JOBS = 64_000, 20_000
ATLAS_NODES = {"atlas_1152": (1_152, 8), "atlas_9216": (9_216, 1)}


def _reference() -> Path:
    return Path(os.environ["LUCID_REFERENCE_DATA"])


def _week(nodes: int = WEEK_NODES) -> Scenario:
    folder = _reference()
    return load_slice(
        folder / "reference" / "lucid" / "week1vc48_jobs.csv.gz", nodes, folder / "data" / "packing"
    )


def _pool(workload: Workload, gpus: int) -> Scenario:
    """One pool that is a counter, as peers have it that know no nodes."""
    jobs = tuple(
        replace(job, virtual_cluster="all", estimated_duration_s=max(1.0, job.duration_s))
        for job in workload.jobs
    )
    return Scenario(Workload(jobs, {}), ClusterSpec.of_gpus(gpus))


def swf_jobs(name: str) -> list[tuple[int, float, float, int]]:
    """Return (job number, submission s, run time s, processors) of a log's jobs that ran, first submission 0.

    As in the reference schedules: partial executions, and jobs without run time or processors, are left out.
    """
    rows = []
    with gzip.open(_reference() / "data" / "swf" / name, "rt", encoding="latin-1") as log:
        for line in log:
            fields = line.split()
            if not fields or line.startswith(";"):
                continue
            processors = int(fields[4]) if int(fields[4]) > 0 else int(fields[7])
            if float(fields[3]) >= 0 and processors > 0 and fields[10] not in ("2", "3", "4"):
                rows.append((int(fields[0]), float(fields[1]), float(fields[3]), processors))
    first = min(row[1] for row in rows)
    return [(number, submitted - first, run, size) for number, submitted, run, size in rows]


def _of_log(name: str) -> Workload:
    return Workload(
        tuple(
            Job(
                job_id=str(number),
                virtual_cluster="all",
                user="u",
                gpus=size,
                submit_time_s=submitted,
                duration_s=run,
                estimated_duration_s=max(1.0, run),
                order=i,
            )
            for i, (number, submitted, run, size) in enumerate(swf_jobs(name))
        ),
        {},
    )


NASA, ATLAS = "NASA-iPSC-1993-3.1-cln.swf.gz", "LLNL-Atlas-2006-cln.swf.gz"


def _large_pool() -> Scenario:
    random = Random(1)
    jobs = tuple(
        Job(
            job_id=str(i),
            virtual_cluster="all",
            user=f"u{random.randint(0, 99)}",
            gpus=random.choice((1, 1, 1, 2, 4, 8, 64, 512)),
            submit_time_s=i * 10.0,
            duration_s=float(int(random.lognormvariate(8, 1.5)) + 1),
            estimated_duration_s=float(int(random.lognormvariate(8, 1.5)) + 1),
            order=i,
        )
        for i in range(POOL_JOBS)
    )
    return Scenario(Workload(jobs, {}), ClusterSpec.of_gpus(POOL_GPUS))


def _atlas_on_nodes(nodes: int, size: int) -> Scenario:
    return Scenario(_of_log(ATLAS), ClusterSpec({"all": nodes}, size))


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "week1vc48": _week,
    "week1vc64": lambda: _week(64),
    "week_pool": lambda: _pool(_week().workload, WEEK_NODES * GPUS_PER_NODE),
    "nasa": lambda: _pool(_of_log(NASA), 128),
    "atlas": lambda: _pool(_of_log(ATLAS), 9_216),
    "pool_64000": _large_pool,
    **{name: lambda shape=shape: _atlas_on_nodes(*shape) for name, shape in ATLAS_NODES.items()},
}


def main(scenario: str, policy: str, runs: int, starts: Path) -> dict[str, Any]:
    """Replay, and write the starts of the last run."""
    found = SCENARIOS[scenario]()
    engine: list[float] = []
    whole: list[float] = []
    while len(engine) < runs and sum(whole) < LONG_S:
        began = process_time()
        result = simulate(found, policy)
        whole.append(process_time() - began)
        engine.append(result.summary["cpu_s"])
        jobs = result.jobs
    jobs[list(KEPT)].to_csv(starts, index=False)
    return {"jobs": len(jobs), "cpu_s": min(engine), "whole_s": min(whole)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))))
