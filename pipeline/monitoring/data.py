"""What a monitoring pass reads of the lake, and what is missing there."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.lake import Lake
from cluster_logs.log_span import busy_days, submission_span
from foundation.errors import NotFoundError
from foundation.site import Site
from lucid_models.duration.model import epoch_seconds
from lucid_models.evaluation.rival_estimates import known_from_s
from lucid_models.known_profiles import with_known_profiles
from lucid_models.training_data import as_known_at, read_training_jobs, without_those_that_never_ran
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency
from pipeline.validation.held_out_days import UnjudgedDays

DAY_S = 86_400.0
HOUR_S = 3_600.0
TICK = timedelta(microseconds=1)
_WEEKEND = 5  # Saturday, as datetime counts weekdays


@dataclass(frozen=True)
class MonitoredWindow:
    """[start, end) is judged; the release learned from [trained_from, trained_until)."""

    trained_from: datetime
    trained_until: datetime
    start: datetime
    end: datetime

    @property
    def length_s(self) -> float:
        """Length of the judged window in seconds."""
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class MonitoredTables:
    """`reference`: the jobs as training knew them. `later`: the jobs from `trained_from` on as known at the
    window's end, without those that never ran. `submitted`: every job of the window, those too.
    """

    window: MonitoredWindow
    reference: pd.DataFrame
    later: pd.DataFrame
    submitted: pd.DataFrame
    throughput: pd.DataFrame | None
    quarantined: int
    rows_of_the_files: int
    last_submission: datetime

    @property
    def live(self) -> pd.DataFrame:
        """The jobs that were submitted in the window."""
        return self.later[self.later["submit_time"] >= self.window.start]


@dataclass(frozen=True)
class Day:
    """A whole UTC day of the window."""

    day: str
    jobs: int


@dataclass(frozen=True)
class DataHealth:
    """What came in, and what did not."""

    jobs: int
    days: tuple[Day, ...]
    missing_days: tuple[str, ...]
    bins: int | None
    missing_bins: int | None
    longest_silence_h: float | None
    usual_silence_h: float | None
    behind_h: float
    overdue_ends: int
    quarantine_share: float


def monitored_window(
    site: Site,
    *,
    trained_from: datetime | None,
    trained_until: datetime,
    window_days: float,
    as_of: datetime | None,
    unjudged: UnjudgedDays | None = None,
) -> MonitoredWindow:
    """The last `window_days` with jobs before `as_of` (default: the log's end), never before
    `trained_until`.

    Without `as_of` the `unjudged` days are left out: the window ends before them, or, once newer jobs came,
    begins behind them. Raises NotFoundError when the lake has no jobs.
    """
    first, last = submission_span(site.lake, site.cluster, as_of)
    end = as_of if as_of is not None else last + TICK
    earliest = trained_until
    if as_of is None and unjudged is not None:
        if last > unjudged.end:
            earliest = max(trained_until, unjudged.end + TICK)
        else:
            end = unjudged.start
    start = max(earliest, busy_days(site.lake, site.cluster).before(end, window_days))
    return MonitoredWindow(
        max(first, trained_from) if trained_from is not None else first,
        trained_until,
        min(start, max(end, trained_until)),
        max(end, trained_until),
    )


def read_monitored(site: Site, window: MonitoredWindow, max_jobs: int) -> MonitoredTables:
    """Read the window and the rows that the release learned from; raises NotFoundError without the latter."""
    lake = Lake(site.lake)
    reference = read_training_jobs(site.lake, site.cluster, window.trained_until, max_jobs=max_jobs).table
    reference = reference[reference["submit_time"] >= window.trained_from].reset_index(drop=True)
    if reference.empty:
        raise NotFoundError(
            f"The lake {site.lake} no longer holds the jobs of {site.cluster!r} that the release learned "
            f"from ({window.trained_from:%Y-%m-%d} to {window.trained_until:%Y-%m-%d}).",
            remedy="Keep the training window in the lake, or retrain on what it holds.",
        )
    raw = as_known_at(lake.read_jobs(site.cluster, window.trained_from, window.end), window.end)
    raw = with_known_profiles(raw, lake.read_job_metrics(site.cluster, window.end))
    submitted = raw[raw["submit_time"] >= window.start]
    files = set(submitted["source_file"].dropna().astype(str))
    refused = lake.read_quarantine(site.cluster)
    try:
        bins: pd.DataFrame | None = lake.read_throughput(site.cluster, window.trained_from, window.end)
    except NotFoundError:
        bins = None
    return MonitoredTables(
        window,
        reference,
        without_those_that_never_ran(raw).reset_index(drop=True),
        submitted.reset_index(drop=True),
        None if bins is None or bins.empty else bins,
        int(refused["source_file"].astype(str).isin(files).sum()),
        int(raw["source_file"].astype(str).isin(files).sum()),
        submission_span(site.lake, site.cluster, window.end)[1],
    )


def check_data(tables: MonitoredTables) -> DataHealth:
    """Count what is missing in the window: days, bins, rows in quarantine, ends that were not reported."""
    window = tables.window
    submit_s = epoch_seconds(tables.submitted, "submit_time")
    days = tuple(_whole_days(submit_s, window.start, window.end))
    bins, missing = _bins(tables)
    rows = tables.quarantined + tables.rows_of_the_files
    reference_s = epoch_seconds(tables.reference, "submit_time")
    return DataHealth(
        jobs=len(tables.submitted),
        days=days,
        missing_days=tuple(_missing_days(days, reference_s, window)),
        bins=bins,
        missing_bins=missing,
        longest_silence_h=_longest_silence_h(submit_s, window.start, window.end),
        usual_silence_h=_longest_silence_h(reference_s, window.trained_from, window.trained_until),
        behind_h=max((window.end - tables.last_submission).total_seconds(), 0.0) / HOUR_S,
        overdue_ends=_overdue_ends(tables),
        quarantine_share=tables.quarantined / rows if rows else 0.0,
    )


def data_findings(
    health: DataHealth, window: MonitoredWindow, settings: MonitorSettings
) -> Iterator[Finding]:
    """Say what is missing. Missing data asks for a look: a retraining would learn from less."""

    def watch(subject: str, sentence: str, value: float, limit: float | None = None) -> Finding:
        return Finding(Urgency.WATCH, "data", subject, sentence, value, limit)

    if not health.jobs:
        yield watch(
            "jobs",
            f"The lake has no job submitted from {window.start:%Y-%m-%d %H:%M} to "
            f"{window.end:%Y-%m-%d %H:%M} UTC: nothing can be judged.",
            0.0,
        )
        return
    if health.missing_days:
        named = ", ".join(health.missing_days)
        whole = f"{len(health.missing_days)} of {len(health.days)} whole days have"
        yield watch(
            "missing days",
            f"{whole if len(health.missing_days) > 1 else 'A day has'} no job at all: {named}.",
            float(len(health.missing_days)),
            0.0,
        )
    silence, usual = health.longest_silence_h, health.usual_silence_h
    if silence is not None and usual is not None and silence > max(settings.silence_factor * usual, 1.0):
        yield watch(
            "silence",
            f"No job was submitted for {silence:.1f} h; the longest silence in training was {usual:.1f} h.",
            silence,
            settings.silence_factor * usual,
        )
    if health.bins and health.missing_bins and health.missing_bins > settings.missing_share * health.bins:
        yield watch(
            "throughput bins",
            f"{health.missing_bins:,} of {health.bins:,} throughput bins are missing.",
            health.missing_bins / health.bins,
            settings.missing_share,
        )
    if health.quarantine_share > settings.missing_share:
        yield watch(
            "quarantine",
            f"{health.quarantine_share:.1%} of the rows of the window's files are in quarantine.",
            health.quarantine_share,
            settings.missing_share,
        )
    if health.overdue_ends:
        yield watch(
            "late ends",
            f"{health.overdue_ends:,} jobs seem to run for longer than any job of training did: their ends "
            "may not have been reported.",
            float(health.overdue_ends),
            0.0,
        )


def _whole_days(submit_s: NDArray[np.float64], start: datetime, end: datetime) -> Iterator[Day]:
    first = int(np.ceil(start.timestamp() / DAY_S))
    counts = np.bincount(
        np.maximum(submit_s // DAY_S - first + 1, 0).astype(np.int64), minlength=1
    )  # place 0: before the first whole day
    for number in range(first, int(end.timestamp() // DAY_S)):
        place = number - first + 1
        name = datetime.fromtimestamp(number * DAY_S, UTC).date().isoformat()
        yield Day(name, int(counts[place]) if place < counts.size else 0)


def _missing_days(
    days: tuple[Day, ...], reference_s: NDArray[np.float64], window: MonitoredWindow
) -> Iterator[str]:
    """Days without a job, of a kind (weekday, weekend) that in training almost never had none."""
    before = list(_whole_days(reference_s, window.trained_from, window.trained_until))
    for day in days:
        alike = [other for other in before if _is_weekend(other.day) == _is_weekend(day.day)]
        empty = sum(not other.jobs for other in alike)
        if not day.jobs and empty <= 0.05 * len(alike):
            yield day.day


def _is_weekend(day: str) -> bool:
    return datetime.fromisoformat(day).weekday() >= _WEEKEND


def _longest_silence_h(submit_s: NDArray[np.float64], start: datetime, end: datetime) -> float | None:
    if not submit_s.size or end <= start:
        return None
    moments = np.concatenate([[start.timestamp()], np.sort(submit_s), [end.timestamp()]])
    return float(np.diff(moments).max()) / HOUR_S


def _bins(tables: MonitoredTables) -> tuple[int | None, int | None]:
    """Bins that lie in the window, and how many of them have no row."""
    if tables.throughput is None:
        return None, None
    window, bin_s = tables.window, int(tables.throughput["bin_s"].iloc[-1])
    starts = epoch_seconds(tables.throughput, "bin_start")
    inside = (starts >= window.start.timestamp()) & (starts + bin_s <= window.end.timestamp())
    expected = int(window.end.timestamp() // bin_s) - int(np.ceil(window.start.timestamp() / bin_s))
    return max(expected, 0), max(expected - int(inside.sum()), 0)


def _overdue_ends(tables: MonitoredTables) -> int:
    """Jobs without an end that have been around for longer than any job of training was."""
    reference, later = tables.reference, tables.later
    stay_s = known_from_s(reference) - epoch_seconds(reference, "submit_time")
    if not np.isfinite(stay_s).any():
        return 0
    waiting = later["duration_s"].isna() & (later["submit_time"] >= tables.window.trained_until)
    age_s = tables.window.end.timestamp() - epoch_seconds(later[waiting], "submit_time")
    return int((age_s > np.nanmax(stay_s)).sum())
