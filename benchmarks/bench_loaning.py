"""How long it takes to choose servers to give back, and to share GPUs out among elastic jobs.

    python benchmarks/bench_loaning.py [--write docs/benchmarks.md]

Half of the servers are asked back. "few": jobs on one or two servers, a job or two to a server, as on a
cluster; "shared at random": eight jobs to a server, on four servers each. Every knapsack is full. Processor
time of one thread; medians over cases, of the best of several rounds, and the longest. Ratios are to the
reference rule, and to the knapsack in plain Python.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np
from bench_simulator import commit, machine

from experiments.pages import publish
from experiments.policies.reclaim_study import shared_servers
from parts.lending.replay.reclaiming import LoanedServer, choose_reclaim
from parts.lending.workers.knapsack import TOLERANCE, WorkerGroup, choose_workers

SIZES = (60, 500)
LIMITS_MS = {("greedy", 60): 5.0, ("greedy", 500): 150.0, ("exact", 60): 50.0, ("exact", 500): 150.0}
KNAPSACKS = {(354, 245): 5.0, (2_000, 2_000): 50.0}  # items and GPUs -> ms
CASES, ROUNDS = 5, 3


def best_ms(work: Callable[..., object], *given: object) -> float:
    """Return the shortest of several rounds of a piece of work (ms)."""
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work(*given)
        took.append(1e3 * (time.process_time() - began))
    return min(took)


def few_jobs(servers: int, seed: int) -> list[LoanedServer[Hashable]]:
    """Return servers of which one in six is idle; others have a job or two, some on two servers."""
    random = Random(seed)
    base: list[dict[Hashable, int]] = [{} for _ in range(servers)]
    busy = random.sample(range(servers), servers * 5 // 6)
    for job, server in enumerate(busy):
        for other in {server, random.choice(busy)} if random.random() < 0.4 else {server}:
            base[other][job] = 1
    return [LoanedServer(server, held) for server, held in enumerate(base)]


def reclaim_rows() -> list[str]:
    """Return a row a rule, size and kind of layout."""
    rows = []
    layouts: Mapping[str, Callable[[int, int], Sequence[LoanedServer[Hashable]]]] = {
        "few": few_jobs,
        "shared at random": lambda servers, seed: shared_servers(servers, 8, 4, seed),
    }
    for kind, layout in layouts.items():
        for size in SIZES:
            cases = [layout(size, seed) for seed in range(CASES)]
            reference = float("nan")
            for rule in ("reference", "greedy", "exact"):
                if rule == "exact" and kind != "few":
                    continue  # without a limit the solver takes seconds there: a live decision has one
                took = [best_ms(choose_reclaim, case, size // 2, rule) for case in cases]
                median = float(np.median(took))
                reference = median if rule == "reference" else reference
                limit = LIMITS_MS.get((rule, size))
                aim = "" if limit is None else f"{limit:g}"
                took_ms = f"{median:.1f} | {max(took):.1f} | {median / reference:.1f}"
                rows.append(f"| {size} | {kind} | {rule} | {took_ms} | {aim} |")
    return rows


def knapsack_rows() -> list[str]:
    """Return a row a size of knapsack."""
    rows = []
    for (items, gpus), limit in KNAPSACKS.items():
        groups = made_groups(items)
        extra_workers = choose_workers(groups, gpus)
        value = sum(group.values[more - 1] for group, more in zip(groups, extra_workers, strict=True) if more)
        quick = best_ms(choose_workers, groups, gpus)
        plain = best_ms(plain_value, groups, gpus)
        if abs(value - plain_value(groups, gpus)) > 1e-6:
            raise SystemExit(f"The knapsack of {items} items is worth {value}, which is not the best.")
        rows.append(f"| {items:,} | {gpus:,} | {quick:.1f} | {plain:.1f} | {plain / quick:.1f} | {limit:g} |")
    return rows


def made_groups(items: int) -> list[WorkerGroup]:
    """Return elastic jobs with so many items in all, worth less the more workers there are."""
    random = np.random.default_rng(7)
    groups = []
    while items:
        more = min(items, int(random.integers(1, 9)))
        run_s = random.uniform(600, 100_000)
        values = tuple(run_s - run_s * more / (more + extra) for extra in range(1, more + 1))
        groups.append(WorkerGroup(int(random.choice([1, 1, 2, 4])), values))
        items -= more
    return groups


def plain_value(groups: Sequence[WorkerGroup], capacity_gpus: int) -> float:
    """Return the best value by the recurrence, GPU by GPU."""
    best = [0.0] * (capacity_gpus + 1)
    for group in groups:
        before = best
        best = before.copy()
        for more, value in enumerate(group.values, start=1):
            gpus = more * group.gpus_per_worker
            for at in range(gpus, capacity_gpus + 1):
                if before[at - gpus] + value > best[at] + TOLERANCE:
                    best[at] = before[at - gpus] + value
    return best[capacity_gpus]


def main() -> int:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description="How long decisions on servers on loan take.")
    parser.add_argument("--write", type=Path, help="the page to put the tables into")
    options = parser.parse_args()
    said = (
        f"Measured at commit {commit('simulator')} on {machine()}, by `python "
        "benchmarks/bench_loaning.py --write docs/benchmarks.md`; "
        f"{os.getloadavg()[0]:.1f} other processes wanted the cores at its start."
    )
    lines = [
        said,
        "",
        "| servers | jobs | rule | CPU ms, median | longest | of the reference rule's | aim, ms |",
        "| ---: | --- | --- | ---: | ---: | ---: | ---: |",
        *reclaim_rows(),
        "",
        "| items | GPUs | CPU ms | plain Python, ms | ratio | aim, ms |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
        *knapsack_rows(),
    ]
    publish({"loaning": "\n".join(lines)}, options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
