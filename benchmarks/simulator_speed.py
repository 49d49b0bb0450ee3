"""Jobs per CPU second of every policy on one slice, beside the reference simulators and a plain loop."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
from fifo_loop import fifo_starts

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments.policies.agreement import load_slice, replayed
from simulator.conformance import sample_workload
from simulator.policies.registry import policy_names
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario

# Jobs per CPU second of the Lucid artifact's simulator on the same week, as published with the reference
# schedules (reference/README.md): on 48 nodes, and of its Lucid on 64.
REFERENCE_SPEED = {"fifo": 120, "sjf": 231, "qssf": 160, "srtf": 75, "tiresias": 218, "lucid": 119}
ARTIFACT_RULES = ("fifo", "sjf", "qssf", "srtf", "tiresias")
WEEK = "week1vc48 (10,650 jobs of Philly on 48 nodes)"
SYNTHETIC = "synthetic (10,000 jobs on 21 nodes; the reference data is not there)"


@dataclass(frozen=True)
class Speed:
    """The best of several runs."""

    policy: str
    rules: str
    jobs_per_cpu_s: float
    decisions: int
    preemptions: int


def reference_slice(nodes: int = 48) -> tuple[str, Scenario]:
    """Return the loaded week of Philly, or a synthetic stand-in without the reference data."""
    data = os.environ.get("LUCID_REFERENCE_DATA")
    if not data:
        return SYNTHETIC, Scenario(*sample_workload("loaded", seed=1, jobs=10_000))
    folder = Path(data)
    jobs = folder / "reference" / "lucid" / "week1vc48_jobs.csv.gz"
    return WEEK, load_slice(jobs, nodes, folder / "data" / "packing")


def measure(found: Scenario, policy: str, rules: str = "default", repeats: int = 3) -> Speed:
    """Replay a slice several times and keep the fastest."""
    summaries = [replayed(found, policy, rules).summary for _ in range(repeats)]
    best = min(summaries, key=lambda summary: summary["cpu_s"])
    return Speed(policy, rules, best["jobs_per_cpu_s"], best["decisions"], best["preemptions"])


def plain_loop_speed(found: Scenario, repeats: int = 3) -> float:
    """Return the plain loop's jobs per CPU second; raises RuntimeError if its starts differ from FIFO's.

    Without the reference data there are several virtual clusters: it replays one after another.
    """
    ours = simulate(Scenario(found.workload, found.cluster), "fifo").jobs
    size = found.cluster.gpus_per_node
    parts = [
        (rows, nodes, list(zip(rows["submit_time_s"], rows["gpus"], rows["duration_s"], strict=True)))
        for name, nodes in found.cluster.virtual_clusters.items()
        for rows in [ours[ours["virtual_cluster"] == name]]
    ]
    times = []
    for _ in range(repeats):
        began = process_time()
        starts = [fifo_starts(jobs, nodes, size) for _, nodes, jobs in parts]
        times.append(process_time() - began)
    for (rows, _, _), plain in zip(parts, starts, strict=True):
        if not np.array_equal(rows["first_start_time_s"].to_numpy(), np.array(plain)):
            raise RuntimeError("The plain loop and FIFO disagree.")
    return len(ours) / min(times)


def speed_table() -> list[str]:
    """Measure, and return the lines of a Markdown table."""
    name, found = reference_slice()
    plain = plain_loop_speed(found)
    lines = [
        f"Data: {name}.",
        "",
        "| policy | rules | jobs per CPU s | of the plain loop | reference simulator | times faster |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        f"| plain loop (FIFO, no policies) | | {plain:,.0f} | 1.00 | | |",
    ]
    cases = [(policy, "default") for policy in policy_names()]
    cases += [(policy, "lucid-artifact") for policy in ARTIFACT_RULES]
    for policy, rules in cases:
        speed = measure(found, policy, rules)
        reference = REFERENCE_SPEED.get(policy) if name == WEEK and policy != "lucid" else None
        lines.append(_row(speed, plain, reference, policy))
    if name == WEEK:
        _, found = reference_slice(64)
        for rules in ("default", "lucid-artifact"):
            speed = measure(found, "lucid", rules)
            lines.append(_row(speed, plain, REFERENCE_SPEED["lucid"], "lucid on 64 nodes"))
    return lines


def _row(speed: Speed, plain: float, reference: int | None, label: str) -> str:
    said = (f"{reference:,}", f"{speed.jobs_per_cpu_s / reference:,.0f}") if reference else ("", "")
    return (
        f"| {label} | {speed.rules} | {speed.jobs_per_cpu_s:,.0f} | {speed.jobs_per_cpu_s / plain:.2f} "
        f"| {said[0]} | {said[1]} |"
    )
