"""The forecast of inference on what has happened since, whether the load is what it was, and shortages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cluster_logs.inference_series import InferenceSeries
from foundation.errors import BadInputError
from lucid_models.drift import Drift, number_drift, window_numbers
from pipeline.loaning.lending_replay import KnownLoad, known_load, lent_servers, load_of
from pipeline.monitoring.data import DAY_S, MonitoredWindow
from pipeline.monitoring.errors import Change, change_over_days
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency
from simulator.gate.forecast_coverage import forecast_coverage
from simulator.gate.rules import GateRules
from simulator.loaning.released_loans import ReleasedLoans

NAIVE_LOAD = "last_value"
AREA = "inference"


@dataclass(frozen=True)
class LoadHealth:
    """What inference did in the window; errors are means over five-minute bins, in shares of the servers.

    `coverage`: by quantile, the share of bins in which usage did not exceed it. `short_pct`: bins in which
    inference lacked servers in a replay of the load by the release's settings, if jobs had wanted all that
    could be lent: the most that can have been. `drift`: of the usage, against the training window.
    """

    bins: int = 0
    mae: float | None = None
    naive_mae: float | None = None
    validation_mae: float | None = None
    validation_naive_mae: float | None = None
    against_naive: Change | None = None
    coverage: Mapping[float, float] | None = None
    short_pct: float | None = None
    drift: Drift | None = None
    note: str = ""


def load_health(
    models: Any,
    lake_uri: str,
    cluster: str,
    window: MonitoredWindow,
    validation: Mapping[str, float],
    settings: MonitorSettings,
) -> LoadHealth | None:
    """Judge a release's part of servers on loan on the window; None for one without it."""
    if models.manifest.loaning is None:
        return None
    released = ReleasedLoans.from_data(models.manifest.loaning)
    scorer = models.inference_load if released.usage == "forecast" else None
    series = load_of(lake_uri, cluster, window.end)
    if isinstance(series, str):
        return LoadHealth(note=f"not measured: {series}")
    try:
        known = known_load(series, window.start, window.end, scorer, released.quantile)
    except BadInputError as error:
        return LoadHealth(note=f"not measured: {error}")
    common: dict[str, Any] = {
        "short_pct": known.short_pct(lent_servers(known, released.loans)),
        "drift": _drift(series, window, settings),
        "validation_mae": validation.get("mae"),
        "validation_naive_mae": validation.get(f"baseline/{NAIVE_LOAD}/mae"),
    }
    if scorer is None:
        return LoadHealth(**common, note="no forecast is asked")
    mean = scorer.predict_series(series.usage, round(series.start_s))
    return _with_errors(known, series, mean, settings, common)


def _with_errors(
    known: KnownLoad,
    series: InferenceSeries,
    mean: np.ndarray[tuple[int], np.dtype[np.float64]],
    settings: MonitorSettings,
    common: Mapping[str, Any],
) -> LoadHealth:
    """`mean`: forecast at the end of each bin of the series, of the next one."""
    rows = np.round((known.times_s - series.start_s) / series.bin_s).astype(np.int64)
    measured = ~(known.gap | series.gap[rows - 1])
    if not measured.any():
        return LoadHealth(**common, note="not measured: no two bins in succession")
    error, naive_error = (np.abs(said - known.usage)[measured] for said in (mean[rows - 1], known.present))
    days = (known.times_s[measured] // DAY_S).astype(np.int64)
    enough = len(np.unique(days)) >= settings.least_days
    return LoadHealth(
        **common,
        bins=int(measured.sum()),
        mae=float(error.mean()),
        naive_mae=float(naive_error.mean()),
        against_naive=change_over_days(error, naive_error, days, settings) if enough else None,
        coverage=known.coverage,
        note="" if enough else f"too few to decide: {len(np.unique(days))} days",
    )


def _drift(series: InferenceSeries, window: MonitoredWindow, settings: MonitorSettings) -> Drift | None:
    """The window's usage beside that of the training window; None where either was not measured."""
    usage, times_s = series.usage[~series.gap], series.times_s[~series.gap]
    learned = (times_s >= window.trained_from.timestamp()) & (times_s < window.trained_until.timestamp())
    live = (times_s >= window.start.timestamp()) & (times_s < window.end.timestamp())
    if not learned.any() or not live.any():
        return None
    windows = window_numbers(times_s[learned], window.trained_until.timestamp(), settings.window_days * DAY_S)
    return number_drift("inference_usage", usage[learned], usage[live], windows)


def load_findings(health: LoadHealth | None, settings: MonitorSettings) -> Iterator[Finding]:
    """A forecast that is clearly worse than the last value, or whose quantiles hold too seldom, asks for a
    new one. Shortages beyond the gate's limit are for a person to see.
    """
    if health is None:
        return
    rules = GateRules()
    if health.short_pct is not None and health.short_pct > rules.inference_short_limit_pct:
        limit = rules.inference_short_limit_pct
        sentence = (
            f"By the release's settings inference lacks servers in up to {health.short_pct:.1f} % of "
            f"five-minute steps; the gate allows {limit:g} %."
        )
        yield Finding(Urgency.WATCH, AREA, "shortages", sentence, health.short_pct, limit)
    if health.mae is None or health.naive_mae is None or health.against_naive is None:
        return
    if health.against_naive.low is not None and health.against_naive.low > 0:
        sentence = (
            f"The last value forecasts inference better: off by {100 * health.naive_mae:.2f} against "
            f"{100 * health.mae:.2f} % of the servers."
        )
        yield Finding(Urgency.RETRAIN, AREA, "worse than naive", sentence, health.mae, health.naive_mae)
    elif health.validation_mae and health.validation_naive_mae and health.naive_mae:
        limit = settings.error_factor * health.validation_mae
        skill = health.mae / health.naive_mae
        if health.mae > limit and skill > settings.error_factor * (
            health.validation_mae / health.validation_naive_mae
        ):
            sentence = (
                f"Forecasts of inference are off by {100 * health.mae:.2f} % of the servers ({skill:.0%} of "
                f"the last value's error); at validation by {100 * health.validation_mae:.2f} %."
            )
            yield Finding(Urgency.RETRAIN, AREA, "error", sentence, health.mae, limit)
    if health.coverage:
        what = "the usage in the next five minutes"
        one = forecast_coverage("coverage", health.coverage, rules.coverage_margin_points, what)
        if not one.passed:
            yield Finding(Urgency.RETRAIN, AREA, one.name, one.sentence, one.challenger, one.limit)
