"""The forecast of nodes on what has happened since, and what sleeping nodes would have cost."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cluster_logs.node_series import NodeSeries
from foundation.html_pages import dashed
from parts.node_sleep.demand.evaluation import naive_demand
from parts.node_sleep.demand.model import demand_outcomes
from parts.node_sleep.demand.scorer import NodeDemandScorer
from parts.node_sleep.replay.gate_limits import SleepEvidence, sleeping_nodes
from parts.node_sleep.replay.settings import SleepSettings
from parts.node_sleep.steps.gate_check import counted_nodes, evidence_of_counts
from pipeline.monitoring.data import MonitoredWindow
from pipeline.monitoring.forecast_errors import (
    ErrorSentences,
    ForecastErrors,
    error_findings,
    shown_coverage,
)
from pipeline.monitoring.part_health import MonitorCheck, MonitoredRelease, PageSection, PartHealth
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency
from simulator.gate.rules import GateRules

NAIVE_DEMAND = "last_value"
AREA = "nodes"


SENTENCES = ErrorSentences(
    AREA,
    "The last value forecasts busy nodes better: off by {naive_mae:.2f} against {mae:.2f} nodes.",
    "Forecasts of busy nodes are off by {mae:.2f} nodes ({skill:.0%} of the last value's error); at "
    "validation by {validation_mae:.2f} ({validation_skill:.0%}).",
)


@dataclass(frozen=True)
class NodeHealth(ForecastErrors, PartHealth):
    """What nodes did in the window; errors are over bins, in nodes, of the next hours' mean.

    `coverage`: by quantile, the share of bins in which the highest of the next hours did not exceed it.
    `wake_ups_per_day` and `short_pct` (node-minutes that demand lacked, of all busy ones) are those of a
    replay of the counts by the release's settings: what was, or would have been.
    """

    coverage: Mapping[float, float]
    wake_ups_per_day: float | None
    short_pct: float | None

    def findings(self, settings: MonitorSettings) -> Iterator[Finding]:
        """What errors ask for; what sleeping nodes cost beyond the gate's limits is for a person to see."""
        yield from error_findings(self, SENTENCES, settings)
        evidence = SleepEvidence(self.wake_ups_per_day, self.short_pct, self.coverage)
        for one in sleeping_nodes(evidence, GateRules()):
            if one.passed is False:
                worse = one.name.endswith("coverage") and self.against_naive
                level = Urgency.RETRAIN if worse else Urgency.WATCH
                yield Finding(
                    level, AREA, one.name.replace("_", " "), one.sentence, one.challenger, one.limit
                )

    def figures(self) -> dict[str, float | None]:
        """Errors, coverage by quantile, and what boots cost."""
        return {
            "nodes/near_mean_mae": self.mae,
            "nodes/naive_near_mean_mae": self.naive_mae,
            "nodes/wake_ups_per_day": self.wake_ups_per_day,
            "nodes/short_pct": self.short_pct,
            **{f"nodes/coverage_p{100 * each:g}": share for each, share in self.coverage.items()},
        }

    def section(self) -> PageSection:
        """The same for people."""
        facts = {
            **self.shown("nodes", 2),
            "wake-ups a day, by a replay of the counts": dashed(self.wake_ups_per_day, 2),
            "node-minutes that demand lacked": "-" if self.short_pct is None else f"{self.short_pct:.3f} %",
            **shown_coverage("highest bin", self.coverage),
        }
        return PageSection("Sleeping nodes", facts=facts, note=self.note)


def node_health(release: MonitoredRelease) -> NodeHealth | None:
    """Judge a release's part of sleeping nodes on the window; None for one without it."""
    models, window, settings = release.models, release.window, release.settings
    if "node_sleep" not in models.manifest.parts:
        return None
    counts = counted_nodes(release.site, window.end)
    control = SleepSettings.from_data(models.manifest.parts["node_sleep"])
    forecaster = models.forecasts.get("node_demand")
    evidence = evidence_of_counts(control, forecaster, counts, window.start, window.end)
    health = NodeHealth(evidence.coverage, evidence.wake_ups_per_day, evidence.short_pct)
    health = health.validated(release.validation.get("node_demand", {}), "near_mean_mae", NAIVE_DEMAND)
    if isinstance(counts, str) or evidence.unmeasured:
        return replace(health, note=f"not measured: {evidence.unmeasured}")
    if forecaster is None:
        return replace(health, note="the control asks no forecast")
    return _with_errors(health, forecaster, counts.bins(), window, settings)


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
    return health.judged(error, naive_error, bins.times_s[inside], settings)


MONITOR_CHECK = MonitorCheck("nodes", node_health)
