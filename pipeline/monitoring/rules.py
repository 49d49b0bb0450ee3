"""From what was measured to a decision: ok, watch or retrain, each with its reasons in words.

A number alone never asks for a retraining: it must also lie outside of what chance and the log's own habits
explain (intervals by day, the training window's own weeks). What cannot be judged says so and decides
nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from foundation.errors import BadInputError, UnknownNameError


class Urgency(StrEnum):
    """What a finding asks for."""

    OK = "ok"
    WATCH = "watch"
    RETRAIN = "retrain"


_RANK = {Urgency.OK: 0, Urgency.WATCH: 1, Urgency.RETRAIN: 2}


@dataclass(frozen=True)
class MonitorSettings:
    """Thresholds of a pass.

    - `window_days`: the newest days that are judged. A week holds every day of the week once, so weekends do
      not look like drift.
    - `psi_watch`, `psi_major`: the usual reading of the stability index.
    - `over_usual`: a shift must also be so many times larger than the largest between the training window's
      own windows; jobs come in bursts, and quiet weeks differ.
    - `unknown_share`: share of jobs by users, virtual clusters, job types or GPU demands that training never
      saw; new names only ask for a look.
    - `error_factor`: live error against the error at validation; it must also be clearly worse. Throughput:
      its error relative to the naive rival's. A clearly better naive rival always asks for a retraining.
    - `tau_loss`: Kendall's tau that may be lost against validation before a person should look.
    - `coverage_low`, `coverage_high`: share of jobs that end within their P90; clearly outside asks for a
      retraining, perhaps outside for a look.
    - `confidence_pct`: of the intervals (bootstrap over days) that say "clearly".
    - `least_jobs`, `least_days`: fewer judged jobs, or days, decide nothing about errors.
    - `least_jobs_of_a_group`: of a virtual cluster, to be shown by itself.
    - `regret_pct`: by how much of its mean JCT the live order may lose to first come, first served; clearly
      more advises a rollback, perhaps more a look.
    - `missing_share`: share of throughput bins, or of the rows of the log's files, that may be missing or in
      quarantine before a person should look.
    - `silence_factor`: a silence must be so many times longer than the training window's longest.
    - `cooldown_hours`: hours of new log that must have come in since the last request to retrain.
    - `hold_out_days`: what a requested retraining leaves to the gate: short, for it must see the change.
    """

    window_days: float = 7.0
    psi_watch: float = 0.1
    psi_major: float = 0.25
    over_usual: float = 2.0
    unknown_share: float = 0.3
    error_factor: float = 1.2
    tau_loss: float = 0.1
    coverage_low: float = 0.80
    coverage_high: float = 0.97
    confidence_pct: float = 95.0
    least_jobs: int = 200
    least_days: int = 4
    least_jobs_of_a_group: int = 50
    regret_pct: float = 5.0
    missing_share: float = 0.05
    silence_factor: float = 2.0
    cooldown_hours: float = 72.0
    hold_out_days: int = 3

    def __post_init__(self) -> None:
        limits = {
            "window_days": (0.5, 366),
            "psi_major": (0, 100),
            "psi_watch": (0, self.psi_major),
            "over_usual": (1, 100),
            "unknown_share": (0, 1),
            "error_factor": (1, 100),
            "tau_loss": (0, 2),
            "coverage_high": (0, 1),
            "coverage_low": (0, self.coverage_high),
            "confidence_pct": (50, 99.9),
            "least_jobs": (10, 10**9),
            "least_days": (2, 366),
            "least_jobs_of_a_group": (10, 10**9),
            "regret_pct": (0, 1000),
            "missing_share": (0, 1),
            "silence_factor": (1, 1000),
            "cooldown_hours": (0, 24 * 366),
            "hold_out_days": (1, 365),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise BadInputError(f"{name} is {value!r}.", remedy=f"Use {low} to {high}.")


def monitor_settings(values: Mapping[str, Any]) -> MonitorSettings:
    """Return the settings with the chosen ones in place of their defaults.

    Raises UnknownNameError for a setting that does not exist, BadInputError for a bad value.
    """
    names = [field.name for field in fields(MonitorSettings)]
    for name in values:
        if name not in names:
            raise UnknownNameError("setting of the monitoring", name, names)
    return MonitorSettings(**values)


@dataclass(frozen=True)
class Finding:
    """One thing that a person should know: `area` is data, drift, duration, throughput, packing, live, or a
    part's own.
    """

    level: Urgency
    area: str
    subject: str
    sentence: str
    value: float | None = None
    limit: float | None = None


def decide(findings: Iterable[Finding]) -> Urgency:
    """The most that any finding asks for; ok without one."""
    return max((finding.level for finding in findings), key=_RANK.__getitem__, default=Urgency.OK)


def by_urgency(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, those that ask for most first, else as they were found."""
    return tuple(sorted(findings, key=lambda finding: -_RANK[finding.level]))
