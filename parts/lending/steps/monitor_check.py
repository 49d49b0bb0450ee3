"""The forecast of inference on what has happened since, whether the load is what it was, and shortages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from foundation.errors import BadInputError
from lucid_models.drift import Drift, number_drift, window_numbers
from parts.lending.load.series import InferenceSeries
from parts.lending.replay.gate_limits import LoanGateRules
from parts.lending.replay.released_loans import ReleasedLoans
from parts.lending.steps.lending_replay import KnownLoad, known_load, lent_servers, load_of
from pipeline.monitoring.data import DAY_S, MonitoredWindow
from pipeline.monitoring.forecast_errors import (
    ErrorSentences,
    Floats,
    ForecastErrors,
    coverage_findings,
    error_findings,
    shown_coverage,
)
from pipeline.monitoring.part_health import MonitorCheck, MonitoredRelease, PageSection, PartHealth
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency

NAIVE_LOAD = "last_value"
AREA = "inference"


SENTENCES = ErrorSentences(
    AREA,
    "The last value forecasts inference better: off by {naive_mae:.2f} against {mae:.2f} % of the servers.",
    "Forecasts of inference are off by {mae:.2f} % of the servers ({skill:.0%} of the last value's error); "
    "at validation by {validation_mae:.2f} %.",
    unit_scale=100.0,
)


@dataclass(frozen=True)
class LoadHealth(ForecastErrors, PartHealth):
    """What inference did in the window; errors are over five-minute bins, in shares of the servers.

    `coverage`: by quantile, the share of bins in which usage did not exceed it. `short_pct`: bins in which
    inference lacked servers in a replay of the load by the release's settings, if jobs had wanted all that
    could be lent: the most that can have been. `drift`: of the usage, against the training window.
    """

    coverage: Mapping[float, float] | None = None
    short_pct: float | None = None
    drift: Drift | None = None

    def findings(self, settings: MonitorSettings) -> Iterator[Finding]:
        """What errors and quantiles ask for; shortages beyond the gate's limit are for a person to see."""
        limit = LoanGateRules().inference_short_limit_pct
        if self.short_pct is not None and self.short_pct > limit:
            sentence = (
                f"By the release's settings inference lacks servers in up to {self.short_pct:.1f} % of "
                f"five-minute steps; the gate allows {limit:g} %."
            )
            yield Finding(Urgency.WATCH, AREA, "shortages", sentence, self.short_pct, limit)
        yield from error_findings(self, SENTENCES, settings)
        if self.against_naive is not None and self.coverage:
            yield from coverage_findings(AREA, self.coverage, "the usage in the next five minutes")

    def figures(self) -> dict[str, float | None]:
        """Errors, coverage by quantile, and shortages."""
        return {
            "inference/mae": self.mae,
            "inference/naive_mae": self.naive_mae,
            "inference/short_pct": self.short_pct,
            **{f"inference/coverage_p{100 * each:g}": share for each, share in (self.coverage or {}).items()},
        }

    def section(self) -> PageSection:
        """The same for people."""
        facts = {
            **self.shown("share of the servers", 4),
            "steps in which inference lacked servers, at most": "-"
            if self.short_pct is None
            else f"{self.short_pct:.2f} %",
            **shown_coverage("usage", self.coverage or {}),
        }
        return PageSection("Servers on loan", facts=facts, note=self.note)

    def drifts(self) -> tuple[Drift, ...]:
        """Of the usage."""
        return () if self.drift is None else (self.drift,)


def load_health(release: MonitoredRelease) -> LoadHealth | None:
    """Judge a release's part of servers on loan on the window; None for one without it."""
    models, window, settings = release.models, release.window, release.settings
    if "loaning" not in models.manifest.parts:
        return None
    released = ReleasedLoans.from_data(models.manifest.parts["loaning"])
    scorer = models.forecasts.get("inference_load") if released.usage == "forecast" else None
    series = load_of(release.site, window.end)
    if isinstance(series, str):
        return LoadHealth(note=f"not measured: {series}")
    try:
        window_load = known_load(series, window.start, window.end, scorer, released.quantile)
    except BadInputError as error:
        return LoadHealth(note=f"not measured: {error}")
    health = LoadHealth(
        short_pct=window_load.short_pct(lent_servers(window_load, released.loans)),
        drift=_drift(series, window, settings),
    ).validated(release.validation.get("inference_load", {}), "mae", NAIVE_LOAD)
    if scorer is None:
        return replace(health, note="no forecast is asked")
    mean = scorer.predict_series(series.usage, round(series.start_s))
    return _with_errors(health, window_load, series, mean, settings)


def _with_errors(
    health: LoadHealth,
    window_load: KnownLoad,
    series: InferenceSeries,
    mean: Floats,
    settings: MonitorSettings,
) -> LoadHealth:
    """`mean`: forecast at the end of each bin of the series, of the next one."""
    rows = np.round((window_load.times_s - series.start_s) / series.bin_s).astype(np.int64)
    measured = ~(window_load.gap | series.gap[rows - 1])
    if not measured.any():
        return replace(health, note="not measured: no two bins in succession")
    error, naive_error = (
        np.abs(said - window_load.usage)[measured] for said in (mean[rows - 1], window_load.present)
    )
    health = replace(health, coverage=window_load.coverage)
    return health.judged(error, naive_error, window_load.times_s[measured], settings)


def _drift(series: InferenceSeries, window: MonitoredWindow, settings: MonitorSettings) -> Drift | None:
    """The window's usage beside that of the training window; None where either was not measured."""
    usage, times_s = series.usage[~series.gap], series.times_s[~series.gap]
    learned = (times_s >= window.trained_from.timestamp()) & (times_s < window.trained_until.timestamp())
    live = (times_s >= window.start.timestamp()) & (times_s < window.end.timestamp())
    if not learned.any() or not live.any():
        return None
    windows = window_numbers(times_s[learned], window.trained_until.timestamp(), settings.window_days * DAY_S)
    return number_drift("inference_usage", usage[learned], usage[live], windows)


MONITOR_CHECK = MonitorCheck("inference", load_health)
