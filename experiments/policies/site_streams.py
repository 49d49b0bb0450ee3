"""Streams of jobs through a real slurmctld beside the same streams under the policy `site`.

    python -m experiments.policies.site_streams

Each folder of docs/measurements/site_streams is one stream, as `python -m tests.slurm.stream_recording` took
it of Slurm 22.05.8: jobs.csv (what was asked for, when it was submitted and started, how long it ran),
cycles.csv (when slurmctld's schedulers ran, by its log) and site.toml (what its configuration declares).
Prints a row a stream: told of the cycles, and by its own clock, which knows the first cycle alone.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cluster_logs.site.site_file import read_site, site_data
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.policies.registry import load_policy
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

STREAMS = Path(__file__).parents[2] / "docs" / "measurements" / "site_streams"
NODES, GPUS_PER_NODE, PARTITION = 6, 8, "main"


@dataclass(frozen=True)
class Compared:
    """Waits of a stream under Slurm and under `site`, shape (jobs,), in seconds; jobs requeued in either."""

    slurm_s: np.ndarray
    site_s: np.ndarray
    slurm_preemptions: int
    site_preemptions: int

    @property
    def mean_error_pct(self) -> float:
        """By how much the mean wait differs."""
        return float(100.0 * (self.site_s.mean() / self.slurm_s.mean() - 1.0))

    def within_pct(self, seconds: float) -> float:
        """The share of starts that differ by at most so much."""
        return float(100.0 * (np.abs(self.site_s - self.slurm_s) <= seconds).mean())


def read_jobs(folder: Path) -> tuple[list[Job], list[dict[str, str]]]:
    """Return a stream's jobs, and their rows."""
    with (folder / "jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    jobs = [
        Job(
            row["job"],
            PARTITION,
            row["user"],
            int(row["gpus"]),
            float(row["submit_s"]),
            float(row["run_s"]),
            order=int(row["job"]),
            time_limit_s=float(row["time_limit_s"]),
            account=row["account"] or None,
            qos=row["qos"] or None,
        )
        for row in rows
    ]
    return jobs, rows


def clock(folder: Path, *, cycles: bool) -> dict[str, Any]:
    """Return the settings that say when slurmctld's cycles ran: all of them, or the first alone."""
    with (folder / "cycles.csv").open(newline="") as file:
        times = [(row["what"], float(row["at_s"])) for row in csv.DictReader(file)]
    backfills = [at_s for what, at_s in times if what == "backfill"]
    calculated = [at_s for what, at_s in times if what == "priorities"]
    found: dict[str, Any] = {"anchor_s": float(int(backfills[0]))}
    if calculated:
        found["calculated_s"] = calculated[0] if cycles else float(int(calculated[0]))
    if cycles:
        found["main_s"] = [at_s for what, at_s in times if what == "main"]
        found["backfill_s"] = backfills
    return found


def compare(folder: Path, *, cycles: bool, **changes: Any) -> Compared:
    """Replay a stream; `changes` are tables of its site.toml with other values, to see what they do."""
    jobs, rows = read_jobs(folder)
    site = site_data(read_site(folder / "site.toml"))
    for table, values in changes.items():
        site[table] = {**site[table], **values}
    policy = load_policy("site", {"site": site, **clock(folder, cycles=cycles)})
    simulation = Simulation(
        Scenario(Workload(tuple(jobs), {}), ClusterSpec({PARTITION: NODES}, GPUS_PER_NODE)), policy
    )
    simulation.run()
    views = simulation.ended_jobs()
    starts = np.array([view.first_start_time_s for view in views], dtype=float)
    submits = np.array([job.submit_time_s for job in jobs])
    return Compared(
        np.array([float(row["start_s"]) for row in rows]) - submits,
        starts - submits,
        sum(int(row["preemptions"]) for row in rows),
        sum(view.preemptions for view in views),
    )


def table() -> list[str]:
    """Return the comparison of all streams, as lines of Markdown."""
    head = (
        "| stream | jobs | Slurm: mean wait (s) | site, told of the cycles | within bf_interval (%)"
        " | requeued: Slurm, site | by its own clock | within bf_interval (%) |"
    )
    lines = [
        head,
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for folder in sorted(each for each in STREAMS.iterdir() if each.is_dir()):
        interval_s = read_site(folder / "site.toml").scheduler.bf_interval_s
        told, own = (compare(folder, cycles=cycles) for cycles in (True, False))
        lines.append(
            f"| {folder.name} | {len(told.slurm_s)} | {told.slurm_s.mean():.1f}"
            f" | {told.site_s.mean():.1f} ({told.mean_error_pct:+.1f} %) | {told.within_pct(interval_s):.1f}"
            f" | {told.slurm_preemptions}, {told.site_preemptions}"
            f" | {own.site_s.mean():.1f} ({own.mean_error_pct:+.1f} %) | {own.within_pct(interval_s):.1f} |"
        )
    return lines


def main() -> None:
    """Print the table."""
    print("\n".join(table()))


if __name__ == "__main__":
    main()
