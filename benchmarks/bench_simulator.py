"""How fast the simulator is; `--write docs/benchmarks.md` puts the tables into that page.

Speeds are in CPU seconds and the best of several runs. With LUCID_REFERENCE_DATA the loaded week of Philly is
replayed, without it a synthetic workload. `--only speed` leaves the others out.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from large_simulations import million_table, month_table
from simulator_scaling import idle_table, queue_table
from simulator_speed import speed_table

from experiments.pages import publish

ROOT = Path(__file__).parents[1]
PARTS: Mapping[str, tuple[str, Callable[[], list[str]]]] = {
    "speed": ("Jobs per CPU second", speed_table),
    "idle": ("Idle time costs nothing", idle_table),
    "queue": ("Long queues", queue_table),
    "month": ("A month of a large cluster under every policy", month_table),
    "million": ("A million jobs", million_table),
}


def machine() -> str:
    """Name the processor, its cores and Python."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def commit(*packages: str) -> str:
    """Return the commit that is measured, and whether files of the packages differ from it."""
    try:
        named = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "-C", str(ROOT), "status", "--porcelain", "--", *packages],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{named}{' with changes' if changed else ''}"


def main(arguments: list[str]) -> int:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(prog="bench_simulator.py", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), help="measure these parts alone")
    parser.add_argument("--write", type=Path, help="the page to put the tables into")
    chosen = parser.parse_args(arguments)
    command = f"`python benchmarks/bench_simulator.py{' ' if arguments else ''}{' '.join(arguments)}`"
    measured = commit("simulator", "cluster_logs")
    written = [
        f"Measured {datetime.now(UTC):%Y-%m-%d} at commit {measured} on {machine()}, by {command}.",
    ]
    print(written[0], flush=True)
    for part in chosen.only or PARTS:
        title, measure = PARTS[part]
        lines = ["", f"### {title}", "", *measure()]
        print("\n".join(lines), flush=True)
        written += lines
    if chosen.write is not None:
        publish({"simulator": "\n".join(written)}, chosen.write)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
