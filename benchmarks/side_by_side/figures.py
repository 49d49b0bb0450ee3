"""What was measured, and the one table of it."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HEAD = (
    "what",
    "program",
    "CPU s",
    "jobs per CPU s",
    "of today's time",
    "peak MiB",
    "starts equal, %",
    "remark",
)


@dataclass(frozen=True)
class Figure:
    """One program on one task: least processor time (s) of its runs, the peak of memory (MiB) of the same
    run where a whole process was measured, jobs where the task has some, and each job's start (s) by its id.
    """

    program: str
    cpu_s: float
    peak_mib: float | None = None
    jobs: int | None = None
    starts: Mapping[str, float] | None = None
    remark: str = ""


def read_starts(path: Path) -> dict[str, float]:
    """Read the starts that `replays.py` wrote."""
    with path.open(encoding="utf-8", newline="") as table:
        return {row["job_id"]: float(row["first_start_time_s"]) for row in csv.DictReader(table)}


def rows_of(what: str, figures: Sequence[Figure]) -> list[str]:
    """Return a task's rows of the table; the first figure is today's, which the others are compared with."""
    today = figures[0]
    return [_row((what if each is today else "", *_cells(each, today))) for each in figures]


def head() -> list[str]:
    """Return the table's first two lines."""
    numbers = {"CPU s", "jobs per CPU s", "of today's time", "peak MiB", "starts equal, %"}
    return [_row(HEAD), _row(["---:" if name in numbers else "---" for name in HEAD])]


def _cells(each: Figure, today: Figure) -> tuple[str, ...]:
    return (
        each.program,
        f"{each.cpu_s:.3g}" if each.cpu_s < 100 else f"{each.cpu_s:,.0f}",
        "" if each.jobs is None else f"{each.jobs / each.cpu_s:,.0f}",
        f"{each.cpu_s / today.cpu_s:.2f}",
        "" if each.peak_mib is None else f"{each.peak_mib:,.0f}",
        "" if each is today else _agreement(each.starts, today.starts),
        each.remark,
    )


def _agreement(theirs: Mapping[str, float] | None, ours: Mapping[str, float] | None) -> str:
    """The share of jobs that start in the same second, of those that both have."""
    if theirs is None or ours is None:
        return ""
    both = theirs.keys() & ours.keys()
    if not both:
        return ""
    equal = sum(abs(theirs[job] - ours[job]) < 0.5 for job in both)
    return f"{100 * equal / len(both):.2f}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
