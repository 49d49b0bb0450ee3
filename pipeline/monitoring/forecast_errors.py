"""How far forecasts of bins lay from what happened, beside a naive rival's and their own at validation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from foundation.html_pages import dashed
from pipeline.monitoring.data import DAY_S
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency
from simulator.gate.bootstrap import Interval, paired_mean_change
from simulator.gate.limits import forecast_coverage
from simulator.gate.rules import GateRules

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A difference of mean errors with its interval over days; `low` and `high` None: too few days."""

    point: float
    low: float | None
    high: float | None
    days: int


def clearly_above(change: Change | None) -> bool:
    """Whether the whole interval of a change lies above zero."""
    return change is not None and change.low is not None and change.low > 0


def change_over_days(new: Floats, old: Floats, days: NDArray[np.int64], settings: MonitorSettings) -> Change:
    """Return the mean of new - old, with an interval over days: jobs of one day are alike, and one block."""
    blocks = np.unique(days, return_inverse=True)[1]
    interval: Interval = paired_mean_change(
        new, old, blocks, confidence_pct=settings.confidence_pct, method="percentile"
    ).difference
    return Change(interval.point, interval.low, interval.high, interval.blocks)


@dataclass(frozen=True, kw_only=True)
class ForecastErrors:
    """Mean absolute errors over bins, in the unit of what is forecast; None: not measured, as `note` says."""

    bins: int = 0
    mae: float | None = None
    naive_mae: float | None = None
    validation_mae: float | None = None
    validation_naive_mae: float | None = None
    against_naive: Change | None = None
    note: str = ""

    def validated(self, validation: Mapping[str, float], measure: str, rival: str) -> Self:
        """The same with the errors at validation: those metrics of the version that are called `measure`."""
        return replace(
            self,
            validation_mae=validation.get(measure),
            validation_naive_mae=validation.get(f"baseline/{rival}/{measure}"),
        )

    def judged(self, error: Floats, naive_error: Floats, times_s: Floats, settings: MonitorSettings) -> Self:
        """The same with the absolute errors of bins that start at `times_s` (s since 1970), all (bins,)."""
        days = (times_s // DAY_S).astype(np.int64)
        distinct_days = np.unique(days).size
        enough = distinct_days >= settings.least_days
        return replace(
            self,
            bins=error.size,
            mae=float(error.mean()),
            naive_mae=float(naive_error.mean()),
            against_naive=change_over_days(error, naive_error, days, settings) if enough else None,
            note="" if enough else f"too few to decide: {distinct_days} days",
        )

    def shown(self, unit: str, places: int) -> dict[str, str]:
        """The errors by name, as the page shows them."""
        return {
            "bins with a forecast": f"{self.bins:,}",
            f"mean error, {unit}": dashed(self.mae, places),
            "of the last value": dashed(self.naive_mae, places),
            "at validation": dashed(self.validation_mae, places),
        }


def shown_coverage(what: str, coverage: Mapping[float, float]) -> dict[str, str]:
    """Return the share of bins that held within each quantile, as the page shows it."""
    return {
        f"{what} within quantile {quantile:g}": f"{share:.1%} of bins" for quantile, share in coverage.items()
    }


@dataclass(frozen=True)
class ErrorSentences:
    """What is said of a forecast that the naive rival beats (`worse`), or that errs more now (`grown`).

    Templates of `mae`, `naive_mae` and `validation_mae`, which are told in `unit_scale` times their unit,
    and of `skill` and `validation_skill`: errors as a share of the naive rival's.
    """

    area: str
    worse: str
    grown: str
    unit_scale: float = 1.0
    worse_subject: str = "worse than naive"
    grown_subject: str = "error"


def error_findings(
    errors: ForecastErrors, sentences: ErrorSentences, settings: MonitorSettings
) -> Iterator[Finding]:
    """A forecast that is clearly worse than the naive one asks for a new one, as does one with an error that
    grew by more than the naive rival's: the error itself grows with the load.
    """
    mae, naive_mae = errors.mae, errors.naive_mae
    if mae is None or naive_mae is None or errors.against_naive is None:
        return
    told = {"mae": sentences.unit_scale * mae, "naive_mae": sentences.unit_scale * naive_mae}
    if clearly_above(errors.against_naive):
        sentence = sentences.worse.format(**told)
        yield Finding(Urgency.RETRAIN, sentences.area, sentences.worse_subject, sentence, mae, naive_mae)
        return
    before, naive_before = errors.validation_mae, errors.validation_naive_mae
    if not before or not naive_before or not naive_mae:
        return
    limit = settings.error_factor * before
    skill, skill_before = mae / naive_mae, before / naive_before
    if mae > limit and skill > settings.error_factor * skill_before:
        told |= {"validation_mae": sentences.unit_scale * before}
        sentence = sentences.grown.format(**told, skill=skill, validation_skill=skill_before)
        yield Finding(Urgency.RETRAIN, sentences.area, sentences.grown_subject, sentence, mae, limit)


def coverage_findings(
    area: str, coverage: Mapping[float, float], what: str, *, of: str = "bins"
) -> Iterator[Finding]:
    """Quantiles that hold too seldom by the gate's rule ask for a new forecast; `coverage` by quantile."""
    judged = forecast_coverage("coverage", coverage, GateRules().coverage_margin_points, what, of=of)
    if not judged.passed:
        yield Finding(Urgency.RETRAIN, area, judged.name, judged.sentence, judged.challenger, judged.limit)
