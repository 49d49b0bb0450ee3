"""A release's wait model on what has happened since it learned, by week."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from parts.waits.steps.judged_waits import JudgedWaits, judge_waits
from pipeline.monitoring.data import DAY_S
from pipeline.monitoring.forecast_errors import Change, change_over_days, clearly_above, coverage_findings
from pipeline.monitoring.part_health import MonitorCheck, MonitoredRelease, PageSection, PartHealth
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency

AREA = "waits"
ABOUT = (
    "Forecasts of the wait model since the release learned, every 17 hours of all that waits, beside the "
    "median wait of the partition."
)
HEAD = (
    *("week from", "waits that are over", "typically off by a factor of", "the partition's median"),
    "within P90 (right: 90 %)",
)
_WEEK_DAYS = 7


@dataclass(frozen=True)
class WaitErrors:
    """Of a week that begins on the day `begins` (UTC): judged forecasts, their mean error beside the median
    wait of the partition (|log10|, None without any), and the share of waits within P90.
    """

    begins: str
    waits: int
    error: float | None
    naive_error: float | None
    coverage_p90: float | None


@dataclass(frozen=True)
class WaitHealth(PartHealth):
    """What the wait model was worth since the release learned; `weeks` tell of the same."""

    waits: int = 0
    error: float | None = None
    naive_error: float | None = None
    against_naive: Change | None = None
    coverage_p90: float | None = None
    weeks: tuple[WaitErrors, ...] = ()
    note: str = ""

    def findings(self, settings: MonitorSettings) -> Iterator[Finding]:
        """A model that is clearly worse than the partition's median, or whose P90 holds too seldom, asks for
        a new one.
        """
        if self.error is None or self.naive_error is None or self.against_naive is None:
            return
        if clearly_above(self.against_naive):
            sentence = (
                f"The median wait of the partition forecasts waits better: off by a factor of "
                f"{10**self.naive_error:.2g} against {10**self.error:.2g}."
            )
            yield Finding(Urgency.RETRAIN, AREA, "worse than naive", sentence, self.error, self.naive_error)
        if self.coverage_p90 is not None:
            yield from coverage_findings(AREA, {0.9: self.coverage_p90}, "how long jobs wait", of="waits")

    def figures(self) -> dict[str, float | None]:
        """Errors beside the median's, and the share of waits within P90."""
        return {
            "waits/mae_log10": self.error,
            "waits/naive_mae_log10": self.naive_error,
            "waits/coverage_p90": self.coverage_p90,
        }

    def section(self) -> PageSection:
        """The weeks for people."""
        return PageSection(
            "Waits", ABOUT, head=HEAD, rows=[_row(week) for week in self.weeks], note=self.note
        )


def wait_health(release: MonitoredRelease) -> WaitHealth | None:
    """Judge a release's wait model from the end of its training on; None for a release without one."""
    models, window, settings = release.models, release.window, release.settings
    if "waits" not in models.manifest.parts:
        return None
    judged = judge_waits(release.site, models.forecasts["waits"], window.trained_until, window.end)
    if not judged.errors.size:
        return WaitHealth(note="not measured: no wait that was forecast is over")
    errors, naive_errors = judged.errors, judged.naive_errors
    days = (judged.moment_s // DAY_S).astype(np.int64)
    distinct_days = np.unique(days).size
    enough = distinct_days >= settings.least_days and errors.size >= settings.least_jobs
    return WaitHealth(
        waits=int(errors.size),
        error=float(errors.mean()),
        naive_error=float(naive_errors.mean()),
        against_naive=change_over_days(errors, naive_errors, days, settings) if enough else None,
        coverage_p90=judged.coverage,
        weeks=tuple(_weeks(judged, window.trained_until.timestamp())),
        note="" if enough else f"too few to decide: {errors.size:,} waits of {distinct_days} days",
    )


def _weeks(judged: JudgedWaits, since_s: float) -> Iterator[WaitErrors]:
    week, bounds_week = (
        ((moments_s - since_s) // (_WEEK_DAYS * DAY_S)).astype(np.int64)
        for moments_s in (judged.moment_s, judged.bounds_moment_s)
    )
    for number in np.unique(np.concatenate([week, bounds_week])).tolist():
        rows, bounds = week == number, judged.bounds_held[bounds_week == number]
        begins = datetime.fromtimestamp(since_s + number * _WEEK_DAYS * DAY_S, UTC)
        yield WaitErrors(
            f"{begins:%Y-%m-%d}",
            int(rows.sum()),
            float(judged.errors[rows].mean()) if rows.any() else None,
            float(judged.naive_errors[rows].mean()) if rows.any() else None,
            float(bounds.mean()) if bounds.size else None,
        )


def _row(week: WaitErrors) -> tuple[str, ...]:
    return (
        week.begins,
        f"{week.waits:,}",
        "-" if week.error is None else f"{10**week.error:.2f}",
        "-" if week.naive_error is None else f"{10**week.naive_error:.2f}",
        "-" if week.coverage_p90 is None else f"{week.coverage_p90:.1%}",
    )


MONITOR_CHECK = MonitorCheck("waits", wait_health)
