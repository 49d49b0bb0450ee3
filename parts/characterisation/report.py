"""A characterised log as one value: what its JSON and its page say, and ten sentences of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import pandas as pd

from cluster_logs.log_statistics.observed_log import ObservedLog
from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from parts.characterisation.catalogue import FIGURES, TABLES
from parts.characterisation.characterise import Characterisation, characterise
from simulator.wait_fidelity.grade import WaitGrade

LONGEST = 10
_UNITS_S = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
TITLES = {item.key: item.title for item in (*FIGURES, *TABLES)}
# The most telling first: of a log that cannot carry some, the next are told instead. A field stands for the
# key of its place; a duration (a key in seconds) is told in its largest unit.
_TEMPLATES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "In {0:,.0f} days {1:,.0f} GPU jobs were submitted, {2:,.0f} a day.",
        ("submissions.days", "submissions.gpu_jobs", "submissions.gpu_jobs_per_day"),
    ),
    (
        "On average {0:.1f} % of the cluster is in use, 9 minutes in 10 between {1:.1f} and {2:.1f} %.",
        ("utilisation.mean_pct", "utilisation.p05_pct", "utilisation.p95_pct"),
    ),
    (
        "GPU jobs took {0:,.0f} GPU hours; {1:.1f} % of them, of 8 GPUs and more, took {2:.1f} %.",
        ("gpu_time.total_gpu_hours", "sizes.large_jobs_pct", "gpu_time.large_jobs_pct"),
    ),
    (
        "Jobs with one GPU are {0:.1f} % of the GPU jobs, with {1:.1f} % of the GPU time.",
        ("sizes.single_gpu_jobs_pct", "gpu_time.single_gpu_jobs_pct"),
    ),
    (
        "A GPU job queues for {0} on average; {1:.1f} % queue at all, one in a hundred for more than {2}.",
        ("waiting.mean_s", "waiting.queued_jobs_pct", "waiting.p99_s"),
    ),
    (
        "In {0:.1f} % of all queuing time jobs could not start: they were to begin later, or were held back.",
        ("waiting.barred_pct",),
    ),
    (
        "Half of the GPU jobs end within {0}, while the mean duration is {1}.",
        ("durations.median_s", "durations.mean_s"),
    ),
    (
        "Of the GPU jobs {0:.1f} % completed, {1:.1f} % were cancelled and {2:.1f} % failed.",
        ("states.completed_pct", "states.cancelled_pct", "states.failed_pct"),
    ),
    (
        "Cancelled and failed jobs took {0:,.0f} GPU hours, {1:.1f} % of all.",
        ("waste.lost_gpu_hours", "waste.lost_gpu_time_pct"),
    ),
    (
        "Of {0:,.0f} users the top 5 % hold {1:.1f} % of the GPU time (Gini coefficient {2:.2f}).",
        ("users.users", "users.top_5_pct_gpu_time_pct", "users.gini_gpu_time"),
    ),
    (
        "While jobs wait, {0:.1f} % of the GPUs there idle, {1:.1f} % of the time enough for one.",
        ("fragmentation.idle_while_waiting_pct", "fragmentation.fits_while_waiting_pct"),
    ),
    (
        "Most jobs come in the hour from {0:02.0f}:00, {2:.1f} times as many as from {1:02.0f}:00.",
        ("submissions.busiest_hour", "submissions.quietest_hour", "submissions.highest_to_lowest"),
    ),
    (
        "The top 1 % of users bear {0:.1f} % of all queuing, the top 5 % {1:.1f} %.",
        ("user_queuing.top_1_pct_queuing_pct", "user_queuing.top_5_pct_queuing_pct"),
    ),
    (
        "Of all waiting {0:.1f} % is behind jobs of other users, {1:.1f} % behind a user's own.",
        ("waits_behind.behind_others_pct", "waits_behind.behind_own_pct"),
    ),
    (
        "GPU time is spread over {0:,.0f} virtual clusters with a Gini coefficient of {1:.2f}.",
        ("virtual_clusters.virtual_clusters", "virtual_clusters.gini_gpu_time"),
    ),
    (
        "Half of the failed GPU jobs end within {0}, and {1:.1f} % within 2 minutes.",
        ("failures.median_duration_s", "failures.within_2_min_pct"),
    ),
    (
        "Of the GPU time that limits allow {0:.1f} % is not used; half of the jobs use under {1:.1f} %.",
        ("time_limits.unused_gpu_time_pct", "time_limits.median_used_pct"),
    ),
    (
        "The utilisation of an hour deviates from the mean by {0:.1f} points (standard deviation).",
        ("utilisation.std_of_hourly_pct",),
    ),
    (
        "Virtual clusters are between {0:.1f} and {1:.1f} % in use on average.",
        ("imbalance.lowest_mean_pct", "imbalance.highest_mean_pct"),
    ),
    ("A GPU job has {0:.2f} GPUs on average, and {1:,.0f} at most.", ("sizes.mean_gpus", "sizes.max_gpus")),
    (
        "Of the GPU jobs {0:.1f} % run for less than 1,000 s; the longest ran for {1}.",
        ("durations.under_1000_s_pct", "durations.max_s"),
    ),
    (
        "From one whole week to the next the number of GPU jobs changed by {0:+.0f} to {1:+.0f} %.",
        ("weeks.largest_fall_pct", "weeks.largest_rise_pct"),
    ),
    (
        "The busiest hour of day sees {0:,.1f} GPU jobs, the quietest {1:,.1f}.",
        ("submissions.highest_per_h", "submissions.lowest_per_h"),
    ),
    (
        "Half of the minutes see at least {0:.1f} % in use, one in a hundred at least {1:.1f} %.",
        ("utilisation.p50_pct", "utilisation.p99_pct"),
    ),
)


@dataclass(frozen=True)
class Sentence:
    """A sentence, and the keys of `numbers` in the JSON that it tells."""

    text: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class ClusterReport:
    """What was looked at, what was measured, the ten sentences; and of a replay of it, its grade."""

    cluster: str
    start: datetime
    end: datetime
    days: float
    time_zone: str
    rule: str
    measured: Characterisation
    summary: tuple[Sentence, ...]
    notes: tuple[str, ...]
    grade: WaitGrade | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON takes it; `figures` and `tables` hold their rows."""
        measured = self.measured
        return {
            "cluster": self.cluster,
            "window": {
                "start": self.start.isoformat(),
                "end": self.end.isoformat(),
                "days": self.days,
                "time_zone": self.time_zone,
            },
            "utilisation_rule": self.rule,
            "summary": to_jsonable(self.summary),
            "figures": {key: _rows(key, frame) for key, frame in measured.figures.items()},
            "tables": {key: _rows(key, frame) for key, frame in measured.tables.items()},
            "numbers": to_jsonable(measured.numbers),
            "implications": to_jsonable(measured.implications),
            "dropped": to_jsonable(measured.dropped),
            "notes": list(self.notes),
            "grade": None if self.grade is None else to_jsonable(self.grade.to_data()),
        }


def report_on(log: ObservedLog, progress: Progress = silent, grade: WaitGrade | None = None) -> ClusterReport:
    """Measure a log and put it into words; `grade`: of a replay of it."""
    measured = characterise(log, progress)
    window = log.window
    zone = window.zone
    return ClusterReport(
        log.cluster,
        datetime.fromtimestamp(window.start_s, UTC).astimezone(zone),
        datetime.fromtimestamp(window.end_s, UTC).astimezone(zone),
        window.days,
        zone.key,
        str(log.rule),
        measured,
        tuple(summarise(measured.numbers)),
        log.notes,
        grade,
    )


def _rows(key: str, frame: pd.DataFrame) -> dict[str, Any]:
    return {"title": TITLES[key], "rows": to_jsonable(frame.reset_index().to_dict("records"))}


def summarise(numbers: Mapping[str, float]) -> Iterator[Sentence]:
    """The first ten sentences that the numbers can carry."""
    sentences = 0
    for text, keys in _TEMPLATES:
        values = [numbers[key] for key in keys if isfinite(numbers.get(key, float("nan")))]
        if sentences < LONGEST and len(values) == len(keys):
            sentences += 1
            words = [
                duration_text(value) if key.endswith("_s") else value
                for key, value in zip(keys, values, strict=True)
            ]
            yield Sentence(text.format(*words), keys)


def duration_text(seconds: float) -> str:
    """A duration in its largest unit: 45 s, 12.5 min, 3.1 h, 2.4 d."""
    for unit_s, name in _UNITS_S:
        if abs(seconds) >= unit_s:
            return f"{seconds / unit_s:,.1f} {name}"
    return f"{seconds:.0f} s"
