"""Measures agreement with the authors' simulators, job by job, and what each of their faults is worth.

`python -m experiments.policies.fidelity DATA` prints the tables; DATA is the folder that
LUCID_REFERENCE_DATA names.
With `--write docs/simulator_fidelity.md` they go between that page's markers. Any other slice is compared
with `--jobs FILE --nodes FILE --schedule FILE --policy P --rules R`: it prints how far they agree and lists
the jobs that differ.
"""

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from experiments.artifact_rules.artifact import ALL
from experiments.artifact_rules.pcs_rules import ARTIFACTS
from experiments.artifact_rules.rule_sets import LUCID_SIMULATOR
from experiments.pages import publish, study_parser
from experiments.policies.agreement import (
    TOLERANCE_S,
    RunAgreement,
    compare_means,
    compare_schedules,
    load_slice,
    read_schedule,
    replayed,
)
from foundation.csv_files import write_csv
from foundation.errors import LucidError
from foundation.markdown import markdown_table
from simulator.scenario.rules import WITHOUT
from simulator.scenario.scenario import Scenario

LISTED_DIFFERENCES = 20


@dataclass(frozen=True)
class FidelityCase:
    """A slice of the log, a policy and our rule set. Published means stand in where no schedule is kept."""

    slice: str
    policy: str
    rules: str
    published_mean_jct_s: float | None = None
    published_mean_queuing_s: float | None = None

    def __str__(self) -> str:
        return f"{self.slice}-{self.policy}-{self.rules}"


CASES = (
    FidelityCase("week1vc48", "fifo", "default"),
    FidelityCase("week1vc48", "sjf", "default"),
    FidelityCase("week1vc64", "fifo", "default", 32_226.5, 24_397.5),
    FidelityCase("week", "fifo", "default"),
    FidelityCase("week", "sjf", "default"),
    FidelityCase("week1vc48", "fifo", "lucid-artifact"),
    FidelityCase("week1vc48", "sjf", "lucid-artifact"),
    FidelityCase("week1vc48", "qssf", "lucid-artifact"),
    FidelityCase("week1vc48", "srtf", "lucid-artifact"),
    FidelityCase("week1vc48", "tiresias", "lucid-artifact"),
    FidelityCase("week1vc64", "lucid", "lucid-artifact"),
    FidelityCase("week", "lucid", "lucid-artifact"),
)

# Whose faults are taken apart, and on which slice.
FAULT_CASES = (
    FidelityCase("week1vc64", "lucid", "lucid-artifact"),
    FidelityCase("week", "lucid", "lucid-artifact"),
    FidelityCase("week1vc48", "qssf", "lucid-artifact"),
    FidelityCase("week1vc48", "srtf", "lucid-artifact"),
    FidelityCase("week1vc48", "tiresias", "lucid-artifact"),
)


@cache
def reference_slice(name: str, folder: Path) -> Scenario:
    """Load a slice of the reference data: "week", or "week1vcN" for N nodes in one virtual cluster."""
    packing = folder.parents[1] / "data" / "packing"
    if name == "week":
        return load_slice(folder / "week_jobs.csv.gz", folder / "week_nodes.csv", packing)
    return load_slice(folder / "week1vc48_jobs.csv.gz", int(name.removeprefix("week1vc")), packing)


@cache
def compare(case: FidelityCase, folder: Path) -> RunAgreement:
    """Replay a case and compare it with the reference files in `folder` (DATA/reference/lucid)."""
    result = replayed(reference_slice(case.slice, folder), case.policy, case.rules)
    if case.published_mean_jct_s is not None and case.published_mean_queuing_s is not None:
        return compare_means(result, case.published_mean_jct_s, case.published_mean_queuing_s)
    return compare_schedules(result, read_schedule(folder / f"{case.slice}_{case.policy}.csv.gz"))


def agreement_table(folder: Path) -> str:
    """Return the Markdown table of all cases."""
    rows = []
    for case in CASES:
        found = compare(case, folder)
        rows.append(
            (
                case.slice,
                case.policy,
                case.rules,
                _percent(found.equal_starts),
                _percent(found.starts_within_2s),
                _percent(found.ends_within_2s),
                f"{found.mean_jct_s:.1f} / {found.reference_mean_jct_s:.1f}",
                f"{found.mean_queuing_s:.1f} / {found.reference_mean_queuing_s:.1f}",
                f"{found.preemptions} / {found.reference_preemptions or 0}",
            )
        )
    return markdown_table(
        (
            "slice",
            "policy",
            "rules",
            "equal starts",
            "starts within 2 s",
            "ends within 2 s",
            "mean JCT s, ours / reference",
            "mean queuing s, ours / reference",
            "preemptions, ours / reference",
        ),
        rows,
        align_numbers=False,
    )


def fault_table(folder: Path) -> str:
    """Return the Markdown table of what each fault is worth: each left out by itself, and all of them."""
    rows = []
    for case in FAULT_CASES:
        part = reference_slice(case.slice, folder)
        names = [
            fault.name
            for fault in LUCID_SIMULATOR.faults
            if case.policy in fault.policy_settings or (fault.rules and case.policy == "lucid")
        ]
        all_on = replayed(part, case.policy, case.rules).summary
        for label, rules in (
            ("all faults", case.rules),
            *((f"without {name}", f"{case.rules}{WITHOUT}{name}") for name in names),
            ("none", f"{case.rules}{WITHOUT}{ALL}"),
        ):
            summary = replayed(part, case.policy, rules).summary
            jct_s, queuing_s = summary["mean_jct_s"], summary["mean_queuing_delay_s"]
            rows.append(
                (
                    case.slice,
                    case.policy,
                    label,
                    f"{jct_s:.1f}",
                    f"{jct_s - all_on['mean_jct_s']:+.1f}",
                    f"{queuing_s:.1f}",
                    f"{queuing_s - all_on['mean_queuing_delay_s']:+.1f}",
                    f"{summary['p999_queuing_delay_s']:.0f}",
                    f"{summary['colocated_jobs']:,}",
                    f"{summary['preemptions']:,}",
                )
            )
    return markdown_table(
        (
            "slice",
            "policy",
            "rules",
            "mean JCT s",
            "change",
            "mean queuing s",
            "change",
            "P99.9 queuing s",
            "packed jobs",
            "preemptions",
        ),
        rows,
        align_numbers=False,
    )


def difference_table(folder: Path) -> str:
    """Return the Markdown table of the jobs whose start or end is not the reference's to the second."""
    rows = []
    for case in CASES:
        found = compare(case, folder).differences
        if found is None or not len(found):
            continue
        for label, part in (
            ("ended in the profiler", found[found["profiled_only"]]),
            ("shared GPUs", found[~found["profiled_only"] & found["shared"]]),
            ("others", found[~found["profiled_only"] & ~found["shared"]]),
        ):
            if len(part):
                off_start = (part["start_s"] - part["reference_start_s"]).abs()
                off_end = (part["end_s"] - part["reference_end_s"]).abs()
                rows.append(
                    (
                        case.slice,
                        case.policy,
                        case.rules,
                        label,
                        str(int((off_start > 0).sum())),
                        f"{off_start.max():.0f}",
                        str(int((off_end > 0).sum())),
                        f"{off_end.max():.0f}",
                    )
                )
    return markdown_table(
        (
            "slice",
            "policy",
            "rules",
            "jobs that",
            "other starts",
            "furthest s",
            "other ends",
            "furthest s",
        ),
        rows,
        align_numbers=False,
    )


TABLES = {"agreement": agreement_table, "differences": difference_table, "faults": fault_table}


def faults_described() -> str:
    """Return the Markdown table of the faults' names and meanings."""
    return markdown_table(
        ("rule set", "fault", "what it is"),
        [
            (artifact.name, fault.name, fault.meaning)
            for artifact in ARTIFACTS.values()
            for fault in artifact.faults
        ],
        align_numbers=False,
    )


def _percent(share: float | None) -> str:
    return "means only" if share is None else f"{100 * share:.2f} %"


def report(found: RunAgreement) -> str:
    """Say in words how far a slice agrees, and list the jobs that differ."""
    within = f"within {TOLERANCE_S:.0f} s"
    off = f"{100 * found.jct_error:.4f} % off"
    lines = [
        f"jobs: {found.jobs}",
        f"starts: {_percent(found.equal_starts)} equal, {_percent(found.starts_within_2s)} {within}",
        f"ends: {_percent(found.equal_ends)} equal, {_percent(found.ends_within_2s)} {within}",
        f"mean JCT s: {found.mean_jct_s:.2f}, reference {found.reference_mean_jct_s:.2f} ({off})",
        f"mean queuing s: {found.mean_queuing_s:.2f}, reference {found.reference_mean_queuing_s:.2f}",
        f"preemptions: {found.preemptions}, reference {found.reference_preemptions or 0}",
    ]
    differences = found.differences
    if differences is not None and len(differences):
        lines.append(f"{len(differences)} jobs differ; the first by the reference's start:")
        first = differences.sort_values(["reference_start_s", "job_id"]).head(LISTED_DIFFERENCES)
        lines.append(first.to_string(index=False))
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print the tables, write them into a page, or compare one slice; return the exit code."""
    parser = study_parser("experiments.policies.fidelity", __doc__)
    one = parser.add_argument_group("one slice")
    one.add_argument("--jobs", type=Path, help="its jobs, as reference-csv")
    one.add_argument("--nodes", help="nodes of its virtual clusters: a file, or their number if it has one")
    one.add_argument("--schedule", type=Path, help="the reference simulator's schedule")
    one.add_argument("--policy", default="fifo")
    one.add_argument("--rules", default=LUCID_SIMULATOR.name)
    one.add_argument("--differences", type=Path, help="a CSV for all jobs that differ")
    chosen = parser.parse_args(arguments)
    if (chosen.jobs is None) != (chosen.schedule is None) or (chosen.jobs is None) != (chosen.nodes is None):
        parser.error("one slice needs --jobs, --nodes and --schedule")
    if chosen.data is None and (chosen.jobs is None or chosen.policy == "lucid"):
        parser.error("name the reference data, or set LUCID_REFERENCE_DATA")
    data = None if chosen.data is None else Path(chosen.data)
    if chosen.jobs is not None:
        nodes = int(chosen.nodes) if chosen.nodes.isdigit() else Path(chosen.nodes)
        packing = data / "data" / "packing" if data and chosen.policy == "lucid" else None
        part = load_slice(chosen.jobs, nodes, packing)
        found = compare_schedules(replayed(part, chosen.policy, chosen.rules), read_schedule(chosen.schedule))
        print(report(found))
        if chosen.differences is not None and found.differences is not None:
            write_csv(found.differences, Path(chosen.differences))
        return 0
    folder = (data or Path()) / "reference" / "lucid"
    tables = {"described": faults_described(), **{name: make(folder) for name, make in TABLES.items()}}
    publish(tables, chosen.write)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LucidError as error:
        sys.exit(f"Error: {error}")
