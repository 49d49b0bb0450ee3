"""What a session of measuring came to, as data and in words."""

from dataclasses import asdict, dataclass, field
from typing import Any

from foundation.progress import clock_time

_SHOWN = 8  # names in a line


@dataclass(frozen=True)
class SessionReport:
    """What one command measured, and what it leaves.

    `measured`, `out_of_memory` and `failed` (with the reason) name tasks of this session; `rejected` those of
    them that cannot be trusted, with the reason; `flagged` the pairs that seem to gain by company. `left`
    names the tasks that remain, and `undecided_pairs` counts the pairs that wait for solo profiles, of which
    some may not fit; `expected_left_s` is the time for all of it, `sessions_left` the number of runs with the
    same budget (None without one). `shared_failures` says why groups that were to be measured at once were
    not. `left_out` counts pairs by the rule that leaves them out.
    """

    device: str
    device_kind: str
    table: str
    elapsed_s: float
    measured: tuple[str, ...] = ()
    out_of_memory: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    flagged: tuple[str, ...] = ()
    done_before: int = 0
    left: tuple[str, ...] = ()
    undecided_pairs: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    expected_left_s: float = 0.0
    sessions_left: int | None = None
    shared_failures: tuple[str, ...] = ()
    solo_profiles: int = 0
    pair_profiles: int = 0

    @property
    def simulated(self) -> bool:
        """Return whether no hardware was measured."""
        return self.device_kind == "simulated"

    @property
    def finished(self) -> bool:
        """Return whether nothing is left."""
        return not self.left and not self.undecided_pairs

    def document(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**asdict(self), "simulated": self.simulated, "finished": self.finished}


def report_lines(report: SessionReport, goes_on: str) -> list[str]:
    """Return the report for people; `goes_on` is the command that does what is left."""
    where = f"{report.device}{' (SIMULATED: no hardware was measured)' if report.simulated else ''}"
    counts = ", ".join(
        f"{len(names)} {outcome}"
        for outcome, names in (
            ("measured", report.measured),
            ("out of memory", report.out_of_memory),
            ("failed", report.failed),
            ("rejected", report.rejected),
            ("flagged", report.flagged),
        )
    )
    lines = [f"{where}: {counts} in {clock_time(report.elapsed_s)}; {report.done_before} were there before."]
    if report.out_of_memory:
        lines.append(f"Out of memory: {_some(report.out_of_memory)}.")
    lines += [f"Not at once: {failure}." for failure in report.shared_failures]
    lines += [f"Failed: {task}: {reason}" for task, reason in report.failed.items()]
    lines += [f"Rejected: {task}: {reason}." for task, reason in report.rejected.items()]
    if report.rejected:
        lines.append("What was rejected is measured again with --again-rejected.")
    if report.flagged:
        lines.append(f"Flagged (faster in company than alone): {_some(report.flagged)}.")
    lines += [f"Left out: {count:,} pairs: {rule}." for rule, count in report.left_out.items()]
    trusted = f"{report.solo_profiles:,} solo profiles and {report.pair_profiles:,} pairs to trust"
    lines.append(f"{report.table} holds {trusted}.")
    if report.finished:
        lines.append("Nothing is left.")
        return lines
    waiting = f", and up to {report.undecided_pairs:,} pairs" if report.undecided_pairs else ""
    runs = f" in {report.sessions_left:,} more runs of this budget" if report.sessions_left else ""
    expected = clock_time(report.expected_left_s)
    return [
        *lines,
        f"Left: {len(report.left):,} tasks{waiting}, about {expected}{runs}. Go on with:",
        f"  {goes_on}",
    ]


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
