"""Features of a waiting job, with NumPy alone: a live scheduler computes the very same ones.

All of them are made of a `QueueMoment`, which holds nothing of the future. Besides the job itself, each
question is asked of several groups of jobs that have something in common with it: where it stands in the
queue, how fast the group started lately, how long it usually waited. Amounts are logarithms to
base 10. No name of a partition or an account is a feature: what was learned holds for new ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.groups import (
    Codes,
    Floats,
    counts,
    joint_codes,
    lowest,
    medians,
    ranks,
    running_sums,
    sums,
)
from lucid_models.model_format import Fields
from parts.waits.model.queue_moment import DAY_S, HISTORY_S, QueueMoment

# Raised whenever a feature is added, dropped or computed in another way.
FEATURES_VERSION = 1

HOUR_S = 3_600.0
_SIZE_EDGES: Mapping[str, tuple[float, ...]] = {
    "limit_s": (3_601, 3 * 3_600 + 1, 12 * 3_600 + 1, DAY_S + 1, 3 * DAY_S + 1, 7 * DAY_S + 1),
    "cpus": (2, 9, 33, 129),
    "gpus": (1, 2, 5, 9),
}
# By group: the facts that its jobs have in common.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "partition": ("partition",),
    "account": ("account",),
    "account_and_partition": ("account", "partition"),
    "size": tuple(f"{name}_class" for name in _SIZE_EDGES),
    "alike": ("account", "partition", "cpus", "gpus", "limit_s", "mem_mib"),
}
JOB_FEATURES = (
    "waited",
    "is_eligible",
    "since_eligible",
    "limit",
    "cpus",
    "gpus",
    "memory",
    "memory_per_cpu",
    "cpu_time",
    "priority",
    "day_of_week",
)
GROUP_FEATURES = (
    "rank",
    "waiting",
    "work_ahead",
    "starts_3_hours",
    "starts_day",
    "starts_10_days",
    "drain_day",
    "drain_10_days",
    "usual_wait",
    "beyond_usual_wait",
    "wait_per_start",
    "priority_gap",
    "since_start",
    "limit_use",
)
# Site columns that are shares or ratios; all others count jobs, processors or their hours.
_LEAST: Mapping[str, float] = {"fair_share": 1e-4, "usage": 1e-7, "share": 1e-7}
_MOST = 1e9


@dataclass(frozen=True)
class WaitFeatures:
    """Which features are computed; `site_columns`: those of SITE_NAMES that the training log had."""

    site_columns: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names in the order of the matrix's columns."""
        by_group = tuple(f"{feature}_of_{group}" for group in GROUPS for feature in GROUP_FEATURES)
        return (*JOB_FEATURES, *self.site_columns, *by_group)

    def matrix(self, queue: QueueMoment) -> Floats:
        """Features of each waiting job, shape (waiting, len(names)); NaN where not known."""
        waiting = queue.waiting
        rows = waiting["submit_s"].size
        columns = _of_jobs(queue)
        for name in self.site_columns:
            values = waiting.get(name, np.full(rows, np.nan))
            least = _LEAST.get(name)
            columns.append(_log(values + 1) if least is None else _log(np.clip(values, least, _MOST)))
        order = np.lexsort((np.arange(rows), -np.nan_to_num(waiting["priority"], nan=-np.inf)))
        for facts in GROUPS.values():
            columns += _GroupView(queue, facts, order).columns()
        return np.stack(columns, axis=1) if rows else np.empty((0, len(self.names)))

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"version": FEATURES_VERSION, "site_columns": list(self.site_columns)}

    @classmethod
    def from_data(cls, fields: Fields) -> "WaitFeatures":
        """Read what `to_data` wrote; raises CorruptModelError, or FormatVersionError for features that this
        program does not compute.
        """
        fields.check_features("wait", FEATURES_VERSION)
        return cls(tuple(fields.texts("site_columns", most=100, unique=True)))


def _of_jobs(queue: QueueMoment) -> list[Floats]:
    """The columns of JOB_FEATURES."""
    job, now = queue.waiting, queue.moment_s
    limit, cpus, memory = _log(job["limit_s"]), _log(job["cpus"]), _log(job["mem_mib"])
    eligible = job["eligible_s"]
    return [
        _log(now - job["submit_s"] + 1),
        (~np.isnan(eligible)).astype(np.float64),
        _log(now - eligible + 1),
        limit,
        cpus,
        np.asarray(job["gpus"], dtype=np.float64),
        memory,
        memory - cpus,
        cpus + limit,
        np.asarray(job["priority"], dtype=np.float64),
        np.full(limit.size, (now // DAY_S) % 7),
    ]


class _GroupView:
    """The waiting jobs, and those that started, by one group; `order`: waiting jobs, first come first."""

    def __init__(self, queue: QueueMoment, facts: tuple[str, ...], order: Codes) -> None:
        self.now, self.order = queue.moment_s, order
        self.job, self.past = queue.waiting, queue.started
        rows = self.job["submit_s"].size
        total = rows + self.past["submit_s"].size
        codes = joint_codes([_fact(self.job, self.past, name) for name in facts], total)
        self.own, self.codes = codes[:rows], codes[rows:]
        self.groups = int(codes.max(initial=-1)) + 1
        self.age_s = self.now - self.past["start_s"]

    def columns(self) -> list[Floats]:
        """The columns of GROUP_FEATURES."""
        rank = ranks(self.own, self.order)
        work = np.nan_to_num(self.job["cpus"] * self.job["limit_s"] / HOUR_S)
        starts = {span: self._starts(span) for span in (3 * HOUR_S, DAY_S, HISTORY_S)}
        waited = self.now - self.job["submit_s"]
        waits = self.past["start_s"] - self.past["submit_s"]
        return [
            _log(rank),
            _log(self._mine(counts(self.own, self.groups))),
            _log(running_sums(self.own, work, self.order) + 1),
            *(_log(count + 1) for count in starts.values()),
            *(_log((rank + 0.5) / (starts[span] + 0.5) * span / DAY_S) for span in (DAY_S, HISTORY_S)),
            self._median(_log(waits + 1), self.age_s < HISTORY_S),
            _log(waited + 60) - self._median(_log(waits + 60), self.age_s < 3 * DAY_S),
            self._wait_per_start(7 * DAY_S),
            self.job["priority"] - self._median(self.past["priority"], self.age_s < DAY_S),
            self._since_start(),
            self._limit_use(),
        ]

    def _mine(self, by_group: Floats) -> Floats:
        return by_group[self.own]

    def _starts(self, span_s: float) -> Floats:
        return self._mine(counts(self.codes[self.age_s < span_s], self.groups))

    def _median(self, values: Floats, where: NDArray[np.bool_]) -> Floats:
        return self._mine(medians(self.codes[where], values[where], self.groups))

    def _wait_per_start(self, span_s: float) -> Floats:
        """Time waited by all jobs of the group lately for each one that started: the inverse of their hazard,
        to which those that still wait contribute what they have waited.
        """
        since = self.now - span_s
        is_late = self.age_s < span_s
        begun = _later(self.past["eligible_s"], self.past["submit_s"])[is_late]
        waited = np.maximum(self.past["start_s"][is_late] - np.maximum(begun, since), 0.0)
        still = np.nan_to_num(self.now - np.maximum(self.job["eligible_s"], since))
        total = sums(self.codes[is_late], waited, self.groups) + sums(self.own, still, self.groups)
        return _log(self._mine(total) + HOUR_S) - _log(self._starts(span_s) + 0.5)

    def _since_start(self) -> Floats:
        newest = lowest(self.codes, self.age_s, self.groups)
        return _log(_finite(self._mine(newest)) + 60)

    def _limit_use(self) -> Floats:
        """Run time as a share of the limit, of jobs that have ended."""
        run_s = self.past["end_s"] - self.past["start_s"]
        return self._median(_log(run_s + 1) - _log(self.past["limit_s"]), ~np.isnan(run_s))


def _fact(job: Mapping[str, NDArray[Any]], past: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """A fact of the waiting jobs and of those that started, one after the other; sizes as classes."""
    source = name.removesuffix("_class")
    values = np.concatenate([job[source], past[source]])
    if source == name:
        return values
    return np.asarray(np.digitize(np.nan_to_num(values), _SIZE_EDGES[source]), dtype=np.intp)


def _later(times: Floats, others: Floats) -> Floats:
    return np.where(np.isnan(times), others, times)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


def _log(values: NDArray[Any]) -> Floats:
    """Logarithm to base 10; NaN for what has none."""
    positive = np.where(np.asarray(values, dtype=np.float64) > 0, values, np.nan)
    return np.asarray(np.log10(positive.astype(np.float64)), dtype=np.float64)
