"""What boosting costs from 10^5 to 10^7 rows of 20 features; `--write docs/benchmarks.md` puts it there.

Each fit runs in a process of its own: CPU and wall-clock seconds of `boost` alone, and the most memory that
the process ever held, its table included. Rows are made up (training_table.py); the error is that on 200,000
other rows. Beside the policy for large tables stand, up to `--as-set-rows`, the settings as they are, and, up
to `--all-rows`, the policy without its sample: what its accuracy costs.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench_simulator import commit, machine
from training_table import FEATURES, NAMES, training_table

from experiments.pages import publish
from lucid_models.boosting import BoostingSettings, affordable, boost

ROWS = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
TEST_ROWS = 200_000
BLOCKS = 20
# The log head of the duration model.
SETTINGS = BoostingSettings(bags=4, max_rounds=1_500, max_bins=128, min_samples_leaf=8)
POLICY, AS_SET, ALL_ROWS = "policy", "as set", "policy, all rows"


def fit(rows: int, variant: str) -> dict[str, float]:
    """One fit in this process."""
    # What the training library takes to load is no part of a fit.
    boost(*training_table(100, seed=0), NAMES, np.arange(100) // 50, BoostingSettings(bags=2, max_rounds=2))
    features, target = training_table(rows, seed=1)
    settings = SETTINGS if variant == AS_SET else affordable(SETTINGS, *features.shape)
    if variant == ALL_ROWS:
        settings = replace(settings, sample_rows=None)
    blocks = np.arange(rows) * BLOCKS // rows
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    scorer = boost(features, target, NAMES, blocks, settings).scorer
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    fresh, truth = training_table(TEST_ROWS, seed=2)
    error = scorer.score(fresh) - truth
    return {
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "learned_rows": min(rows, settings.sample_rows or rows),
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt(np.square(error).mean())),
    }


def fit_apart(rows: int, variant: str) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--fit", str(rows), "--variant", variant]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def table(sizes: list[int], as_set_rows: int, all_rows: int) -> Iterator[list[str]]:
    """The table as Markdown so far, after each row: the large ones take minutes."""
    lines = [
        "| rows | fit | shapes learned from | CPU s | CPU us a row | wall s | peak GiB | MAE | RMSE |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for rows in sizes:
        sampled = affordable(SETTINGS, rows, FEATURES).sample_rows is not None
        variants = [POLICY]
        variants += [AS_SET] if rows <= as_set_rows else []
        variants += [ALL_ROWS] if sampled and rows <= all_rows else []
        for variant in variants:
            one = fit_apart(rows, variant)
            lines.append(
                f"| {rows:,} | {variant} | {one['learned_rows']:,.0f} | {one['cpu_s']:.1f} | "
                f"{1e6 * one['cpu_s'] / rows:.0f} | {one['wall_s']:.1f} | {one['peak_gib']:.2f} | "
                f"{one['mae']:.4f} | {one['rmse']:.4f} |"
            )
            print(lines[-1], flush=True)
            yield lines


def main(arguments: list[str]) -> int:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(prog="bench_training.py", description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--as-set-rows", type=int, default=300_000)
    parser.add_argument("--all-rows", type=int, default=3_000_000)
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    parser.add_argument("--fit", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--variant", default=POLICY, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.fit is not None:
        print(json.dumps(fit(chosen.fit, chosen.variant)))
        return 0
    measured = commit("lucid_models/boosting.py", "lucid_models/additive_scorer.py")
    started = (
        f"Measured at commit {measured} on {machine()}, by "
        f"`python benchmarks/bench_training.py{' ' if arguments else ''}{' '.join(arguments)}`; "
        f"{os.getloadavg()[0]:.1f} other processes wanted the cores at its start."
    )
    print(started, flush=True)
    settings = (
        f"{FEATURES} features; as set: {SETTINGS.objective}, {SETTINGS.bags} bags, at most "
        f"{SETTINGS.max_rounds:,} rounds ({SETTINGS.smoothing_rounds} random), {SETTINGS.max_bins} bins."
    )
    for lines in table(chosen.rows, chosen.as_set_rows, chosen.all_rows):
        if chosen.write is not None:
            publish({"training": "\n".join([started, "", settings, "", *lines])}, chosen.write)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
