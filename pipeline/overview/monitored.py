"""What monitoring saw of each cluster: the newest pass, and how far off estimates were over the passes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.kept_reports import newest_reports
from pipeline.monitoring.records import REPORT_FILE

SHOWN_PASSES = 30


@dataclass(frozen=True)
class SeenPass:
    """A pass at its `as_of` (ISO). The figures are 10 to the mean error of log10 run time: by what factor
    estimates are typically off, in the window, of a naive rival on the same jobs, and at validation; None:
    too few jobs ended.
    """

    as_of: str
    decision: str
    version: int
    error_factor: float | None
    naive_factor: float | None
    validation_factor: float | None


@dataclass(frozen=True)
class MonitoredAtAGlance:
    """The newest monitoring pass with its reasons and its page, and all shown passes, oldest first."""

    decision: str
    as_of: str
    version: int
    reasons: Sequence[str]
    page: str
    history: Sequence[SeenPass]


def read_passes(monitoring_dir: Path, cluster: str = "*") -> dict[str, MonitoredAtAGlance]:
    """Read the newest passes of every cluster that has one (or of one cluster), by cluster."""
    by_cluster: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, stamp, report in newest_reports(monitoring_dir, REPORT_FILE, SHOWN_PASSES, cluster):
        by_cluster.setdefault(name, []).append((stamp, report))
    return {
        name: MonitoredAtAGlance(
            decision=str(reports[0][1]["decision"]),
            as_of=str(reports[0][1]["window"]["end"]),
            version=int(reports[0][1]["release_version"]),
            reasons=[str(reason) for reason in reports[0][1]["reasons"]],
            page=f"{name}/{reports[0][0]}/index.html",
            history=[_pass(report) for _, report in reversed(reports)],
        )
        for name, reports in by_cluster.items()
    }


def _pass(report: Mapping[str, Any]) -> SeenPass:
    duration = report.get("duration") or {}
    overall, validation = duration.get("overall") or {}, duration.get("validation") or {}
    return SeenPass(
        as_of=str(report["window"]["end"]),
        decision=str(report["decision"]),
        version=int(report["release_version"]),
        error_factor=_factor(overall.get("mae_log10")),
        naive_factor=_factor(overall.get("naive_mae_log10")),
        validation_factor=_factor(validation.get("mae_log10")),
    )


def _factor(mae_log10: float | None) -> float | None:
    return None if mae_log10 is None else float(10.0**mae_log10)
