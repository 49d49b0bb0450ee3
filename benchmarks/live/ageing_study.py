"""What the setting `ageing_s` is worth, in simulation, on worlds that the live bench does not run.

    python -m benchmarks.live.ageing_study [--write docs/live_bench.md]

Estimates are the run times with a lognormal error like that of the bench's release.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.live.foretell import foretell
from benchmarks.live.measures import change_pct, measures, pooled
from benchmarks.live.stream import make_world
from experiments.pages import publish

WORLDS, STREAMS = range(2, 10), range(1, 6)
AGEING_S = (0.0, 150.0, 90.0, 60.0, 45.0, 30.0)
ERROR = 0.45  # standard deviation of the logarithm
_SHOWN = {
    "mean_jct_s": "mean JCT",
    "worst_tenth_jct_s": "worst tenth",
    "max_jct_s": "longest, mean of streams",
}


def table() -> str:
    """Return the table in Markdown: figures without ageing, and the changes with it."""
    found = {ageing_s: _figures(ageing_s) for ageing_s in AGEING_S}
    fifo, plain = _figures(None), found[0.0]
    rows = [["ageing_s", *_SHOWN.values()], ["---"] * (1 + len(_SHOWN))]
    rows.append(["Slurm's own order", *(f"{fifo[name]:.1f} s" for name in _SHOWN)])
    rows.append(["0", *(f"{plain[name]:.1f} s" for name in _SHOWN)])
    for ageing_s in AGEING_S[1:]:
        changes = (f"{change_pct(found[ageing_s][name], plain[name]):+.1f} %" for name in _SHOWN)
        rows.append([f"{ageing_s:g}", *changes])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _figures(ageing_s: float | None) -> dict[str, float]:
    rows = []
    for seed in WORLDS:
        world = make_world(seed)
        for number in STREAMS:
            jobs = world.stream(number)
            truth = np.array([job.duration_s for job in jobs])
            error = np.random.default_rng([seed, number]).normal(0.0, ERROR, len(jobs))
            estimates = None if ageing_s is None else truth * np.exp(error)
            rows.append(measures(foretell(jobs, world.virtual_clusters, estimates, ageing_s or 0.0), jobs))
    # Of the longest times the mean: one stream's would say little.
    return pooled(rows) | {"max_jct_s": float(np.mean([row["max_jct_s"] for row in rows]))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the page to write the table into")
    publish({"live-bench-ageing": table()}, parser.parse_args().write)


if __name__ == "__main__":
    main()
