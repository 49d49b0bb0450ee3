"""The forecast of nodes on what has happened since, and what sleeping nodes would have cost."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cluster_logs.node_series import NodeSeries
from lucid_models.evaluation.node_demand import naive_demand
from lucid_models.node_demand.model import demand_outcomes
from lucid_models.node_demand.scorer import NodeDemandScorer
from pipeline.monitoring.data import DAY_S, MonitoredWindow
from pipeline.monitoring.errors import Change, change_over_days
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency
from pipeline.validation.sleeping_nodes import counted_nodes, evidence_of_counts
from simulator.gate.rules import GateRules
from simulator.gate.sleeping_nodes import SleepEvidence, sleeping_nodes
from simulator.node_sleep.settings import SleepSettings

NAIVE_DEMAND = "last_value"


@dataclass(frozen=True)
class NodeHealth:
    """What nodes did in the window; errors are means over bins, in nodes, of the next hours' mean.

    `coverage`: by quantile, the share of bins whose highest of the next hours did not exceed it.
    `wake_ups_per_day` and `short_pct` (node-minutes that demand lacked, of all busy ones) are those of a
    replay of the counts by the release's settings: what was, or would have been.
    """

    bins: int
    mae: float | None
    naive_mae: float | None
    validation_mae: float | None
    validation_naive_mae: float | None
    against_naive: Change | None
    coverage: Mapping[float, float]
    wake_ups_per_day: float | None
    short_pct: float | None
    note: str = ""


def node_health(
    models: Any,
    lake_uri: str,
    cluster: str,
    window: MonitoredWindow,
    validation: Mapping[str, float],
    settings: MonitorSettings,
) -> NodeHealth | None:
    """Judge a release's part of sleeping nodes on the window; None for one without it."""
    if models.manifest.node_sleep is None:
        return None
    counts = counted_nodes(lake_uri, cluster, window.end)
    control = SleepSettings.from_data(models.manifest.node_sleep)
    evidence = evidence_of_counts(control, models.node_demand, counts, window.start, window.end)
    health = NodeHealth(
        0,
        None,
        None,
        validation.get("near_mean_mae"),
        validation.get(f"baseline/{NAIVE_DEMAND}/near_mean_mae"),
        None,
        evidence.coverage,
        evidence.wake_ups_per_day,
        evidence.short_pct,
    )
    if isinstance(counts, str) or evidence.unmeasured:
        return replace(health, note=f"not measured: {evidence.unmeasured}")
    if models.node_demand is None:
        return replace(health, note="the control asks no forecast")
    return _with_errors(health, models.node_demand, counts.bins(), window, settings)


def _with_errors(
    health: NodeHealth,
    scorer: NodeDemandScorer,
    bins: NodeSeries,
    window: MonitoredWindow,
    settings: MonitorSettings,
) -> NodeHealth:
    outcome = demand_outcomes(bins, scorer.features.near_bins)["near_mean"]
    inside = (bins.times_s >= window.start.timestamp()) & (bins.times_s < window.end.timestamp())
    inside &= ~np.isnan(outcome)
    if not inside.any():
        return replace(health, note="not measured: no bin of the window is followed by enough others")
    forecast = scorer.predict_series(bins.running, round(bins.start_s))["near_mean"]
    naive = naive_demand(bins, scorer.features.near_bins)[NAIVE_DEMAND]["near_mean"]
    error, naive_error = (np.abs(values - outcome)[inside] for values in (forecast, naive))
    days = (bins.times_s[inside] // DAY_S).astype(np.int64)
    enough = len(np.unique(days)) >= settings.least_days
    return replace(
        health,
        bins=int(inside.sum()),
        mae=float(error.mean()),
        naive_mae=float(naive_error.mean()),
        against_naive=change_over_days(error, naive_error, days, settings) if enough else None,
        note="" if enough else f"too few to decide: {len(np.unique(days))} days",
    )


def node_findings(health: NodeHealth | None, settings: MonitorSettings) -> Iterator[Finding]:
    """A forecast that is clearly worse than the last value asks for a new one, as does one whose error grew
    by more than the naive rival's. What sleeping nodes cost beyond the gate's limits is for a person to see.
    """
    if health is None:
        return
    if health.mae is not None and health.naive_mae is not None and health.against_naive is not None:
        yield from _forecast(health, health.mae, health.naive_mae, health.against_naive, settings)
    seen = SleepEvidence(health.wake_ups_per_day, health.short_pct, health.coverage)
    for one in sleeping_nodes(seen, GateRules()):
        if one.passed is False:
            level = (
                Urgency.RETRAIN if one.name.endswith("coverage") and health.against_naive else Urgency.WATCH
            )
            yield Finding(level, "nodes", one.name.replace("_", " "), one.sentence, one.challenger, one.limit)


def _forecast(
    health: NodeHealth, mae: float, naive_mae: float, against_naive: Change, settings: MonitorSettings
) -> Iterator[Finding]:
    if against_naive.low is not None and against_naive.low > 0:
        sentence = (
            f"The last value forecasts busy nodes better: off by {naive_mae:.2f} against {mae:.2f} nodes."
        )
        yield Finding(Urgency.RETRAIN, "nodes", "worse than naive", sentence, mae, naive_mae)
        return
    before, naive_before = health.validation_mae, health.validation_naive_mae
    if not before or not naive_before or not naive_mae:
        return
    limit = settings.error_factor * before
    if mae > limit and mae / naive_mae > settings.error_factor * before / naive_before:
        sentence = (
            f"Forecasts of busy nodes are off by {mae:.2f} nodes ({mae / naive_mae:.0%} of the last value's "
            f"error); at validation by {before:.2f} ({before / naive_before:.0%})."
        )
        yield Finding(Urgency.RETRAIN, "nodes", "error", sentence, mae, limit)
