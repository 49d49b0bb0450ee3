"""How fast elastic jobs are simulated, with every job's end foretold at its submission, and without.

    LUCID_REFERENCE_DATA=DATA python benchmarks/bench_elastic.py [--write docs/benchmarks.md]

The plain simulation asks the rule about everybody at each event and plays a copy of the pool forward for each
prediction; its ends and predictions are asserted to be the quick one's. Processor time of one thread, the
best of several rounds where one takes less than some seconds.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import numpy as np
from bench_simulator import commit, machine

from experiments.pages import publish
from experiments.policies.pcs_agreement import trace
from experiments.pools.quick_rules import QuickAfsL, QuickElasticFifo, QuickSrsf, QuickThemis
from parts.elastic.allocation import AllocationRule, Allocator, PlainAllocator, Pool
from parts.elastic.configurations import PUBLISHED
from parts.elastic.engine import ElasticSimulation, play_forward
from parts.elastic.pareto.samples import SampleSpec, draw_sample, evaluate
from parts.elastic.pareto.size_classes import InfeasibleError, SearchBounds, WfqParameters
from parts.elastic.rules.wfq import WeightedFairQueuing
from simulator.workload.workload import Workload

POOL = Pool(64)
RULES: dict[str, Callable[[], AllocationRule]] = {
    "PCS-JCT": lambda: WeightedFairQueuing(PUBLISHED["fig7-jct"]),
    "PCS-bal": lambda: WeightedFairQueuing(PUBLISHED["fig7-bal"]),
    "FIFO": QuickElasticFifo,
    "SRSF": QuickSrsf,
    "AFS-L": QuickAfsL,
    "ThemisRule": QuickThemis,
}
AUTHORS = {"PCS-JCT": 100, "PCS-bal": 80, "FIFO": 8, "SRSF": 400, "AFS-L": 39}  # jobs a CPU second, PyPy
PLAIN_JOBS = 200  # the plain simulation is shown what fits into seconds
ROUNDS, ENOUGH_S = 3, 2.0
EVALUATIONS, SAMPLE_JOBS = 24, 2_000
FRONT = 370  # evaluations of the authors' search


def simulation(
    workload: Workload, rule: AllocationRule, *, predict: bool, plain: bool = False
) -> ElasticSimulation:
    """Run one simulation to its end."""
    if plain:

        def plainly(pool: Pool) -> Allocator:
            return PlainAllocator(rule, pool)

        rule.allocator = plainly  # type: ignore[method-assign]
    made = ElasticSimulation(workload, POOL, rule, predict=play_forward if predict and plain else predict)
    made.run()
    return made


def cpu_s(run: Callable[[], object]) -> float:
    """Return the processor time of a run (s), the best of some."""
    best = inf
    for _ in range(ROUNDS):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
        if best > ENOUGH_S:
            break
    return best


def policies_table(workload: Workload) -> list[str]:
    """Jobs a CPU second under each policy, and how much sooner than the plain simulation."""
    few = Workload(workload.jobs[:PLAIN_JOBS], {})
    said = (
        f"Trace 0e4a51: {len(workload):,} jobs, 64 GPUs. The plain simulation has the first {PLAIN_JOBS} "
        "and is compared with the quick one on these. The authors' code was measured on another machine."
    )
    lines = [
        said,
        "",
        "| policy | jobs a CPU s | with predictions | times the plain speed | the authors' code, with them |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, make in RULES.items():
        alone, foretold = (
            len(workload)
            / cpu_s(lambda make=make, predict=predict: simulation(workload, make(), predict=predict))
            for predict in (False, True)
        )
        quick = cpu_s(lambda make=make: simulation(few, make(), predict=True))
        mine = simulation(few, make(), predict=True).ended
        plain = simulation(few, make(), predict=True, plain=True)
        for one, other in zip(mine, plain.ended, strict=True):
            if (one.end_time_s, one.predicted_end_time_s) != (other.end_time_s, other.predicted_end_time_s):
                raise SystemExit(f"{name}: {one!r} does not end as in the plain simulation.")
        authors = f"{AUTHORS[name]}" if name in AUTHORS else ""
        lines.append(f"| {name} | {alone:,.0f} | {foretold:,.0f} | {plain.cpu_s / quick:,.0f} | {authors} |")
    return lines


def traces_table(data: Path) -> list[str]:
    """Whether speed holds where more jobs are active."""
    lines = [
        "| trace | policy | jobs | active jobs, mean | jobs a CPU s | with predictions |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name in ("0e4a51", "b436b2", "6214e9"):
        workload = trace(name, data)
        for policy in ("PCS-JCT", "PCS-bal"):
            done = simulation(workload, RULES[policy](), predict=False)
            foretold = simulation(workload, RULES[policy](), predict=True)
            active = done.active_count.jobs / done.active_count.events
            lines.append(
                f"| {name} | {policy} | {len(workload):,} | {active:,.0f} "
                f"| {len(workload) / done.cpu_s:,.0f} | {len(workload) / foretold.cpu_s:,.0f} |"
            )
    return lines


def front_table(workload: Workload) -> list[str]:
    """What a search for a front costs: configurations drawn evenly from the space that is searched."""
    sizes = sorted(job.elasticity.service_s for job in workload.jobs if job.elasticity)
    bounds = SearchBounds.of(sizes).to_data()
    rng = np.random.default_rng(0)
    sample = draw_sample(workload.jobs, SampleSpec(jobs=SAMPLE_JOBS), "search", 0)
    took: list[float] = []
    classes = []
    while len(took) < EVALUATIONS:
        parameters = WfqParameters(**{key: float(rng.uniform(*span)) for key, span in bounds.items()})
        try:
            config = parameters.config(sizes)
        except InfeasibleError:
            continue
        began = time.process_time()
        evaluate(config, sample, POOL)
        took.append(time.process_time() - began)
        classes.append(len(config.weights))
    figures = f"{np.median(took):.2f} | {max(took):.2f} | {FRONT * np.mean(took):,.0f}"
    return [
        f"| evaluations, {SAMPLE_JOBS:,} jobs | size classes | CPU s, median | longest | CPU s of {FRONT} |",
        "| ---: | --- | ---: | ---: | ---: |",
        f"| {EVALUATIONS} | {min(classes)} to {max(classes)} | {figures} |",
    ]


def main() -> int:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description="How fast elastic jobs are simulated.")
    parser.add_argument("--write", type=Path, help="the page to put the tables into")
    options = parser.parse_args()
    data = os.environ.get("LUCID_REFERENCE_DATA")
    if not data:
        print("LUCID_REFERENCE_DATA is not set.")
        return 1
    workload = trace("0e4a51", Path(data))
    said = (
        f"Measured at commit {commit('simulator')} on {machine()}, by `python "
        "benchmarks/bench_elastic.py --write docs/benchmarks.md`; "
        f"{os.getloadavg()[0]:.1f} other processes wanted the cores at its start."
    )
    lines = [
        said,
        "",
        *policies_table(workload),
        "",
        *traces_table(Path(data)),
        "",
        *front_table(workload),
    ]
    publish({"elastic": "\n".join(lines)}, options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
