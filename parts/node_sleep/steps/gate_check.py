"""What a release's sleeping nodes do on the held-out window: its counts of nodes, and its jobs once more."""

from dataclasses import replace
from datetime import datetime

import numpy as np

from cluster_logs.lake import Lake
from cluster_logs.node_series import NodeSeries, read_node_series
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from lucid_models.releases.lifecycle import ReleaseModels
from parts.node_sleep.demand.model import demand_outcomes
from parts.node_sleep.demand.scorer import NodeDemandScorer
from parts.node_sleep.replay.demand_window import demand_window
from parts.node_sleep.replay.gate_limits import SleepEvidence, sleeping_nodes
from parts.node_sleep.replay.node_sleep import NodeSleep, added_queuing
from parts.node_sleep.replay.series_forecast import RememberingForecaster
from parts.node_sleep.replay.series_replay import replay_minutes
from parts.node_sleep.replay.settings import SleepSettings
from parts.node_sleep.replay.timeline import figures_of
from pipeline.validation.contenders import ReplayContender, replay_contender
from pipeline.validation.part_checks import GateCheck, JudgedRelease, PartFindings
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.results.result import SimulationResult


class SleepingNodesCheck(GateCheck):
    """What sleeping nodes may not cost."""

    step = "letting nodes sleep"

    def check(self, judged: JudgedRelease) -> PartFindings:
        """Judge the counts of nodes and a replay of the release with sleeping nodes."""
        manifest = judged.models.manifest
        if "node_sleep" not in manifest.parts:
            return PartFindings()
        counts = counted_nodes(judged.site.of(manifest.cluster), judged.inputs.window.end)
        evidence = sleep_evidence(
            judged.models,
            judged.inputs,
            counts,
            judged.contender("challenger"),
            judged.results.get("challenger"),
        )
        return PartFindings(sleeping_nodes(evidence, judged.rules))


GATE_CHECK = SleepingNodesCheck()


def sleep_evidence(
    release: ReleaseModels,
    inputs: ReplayInputs,
    counts: NodeSeries | str,
    contender: ReplayContender | None,
    awake: SimulationResult | None,
) -> SleepEvidence:
    """Return what the sleeping nodes of a release cost on the window.

    `counts`: of nodes until the window ends, or why there are none. `contender` is the release as it was
    replayed, and `awake` that replay, with all nodes awake; None: it could not be.
    """
    settings = SleepSettings.from_data(release.manifest.parts.get("node_sleep", {}))
    forecaster = release.forecasts.get("node_demand")
    evidence = evidence_of_counts(settings, forecaster, counts, inputs.window.start, inputs.window.end)
    if contender is None or awake is None:
        return replace(evidence, unmeasured=evidence.unmeasured or "the release could not be replayed.")
    sleep = NodeSleep(settings, forecaster=forecaster)
    asleep = replay_contender(contender, replace(inputs, scenario=inputs.scenario.beside(sleep)))
    return replace(evidence, added_queuing_s=added_queuing(asleep, awake)["added_queuing_delay_s"])


def counted_nodes(site: Site, end: datetime) -> NodeSeries | str:
    """Return the lake's counts of nodes before `end`, or why there are none."""
    try:
        return read_node_series(Lake(site.lake).read_node_states(site.cluster, end=end))
    except (NotFoundError, BadInputError) as error:
        return str(error)


def coverage_of(
    scorer: NodeDemandScorer, bins: NodeSeries, start_s: float, end_s: float
) -> dict[float, float]:
    """Of each quantile of the forecasts made in [start, end) (s since 1970): the share of bins in which the
    highest of the next bins did not exceed it; none where nothing followed.
    """
    outcome = demand_outcomes(bins, scorer.features.near_bins)["near_peak"]
    judged = (bins.times_s >= start_s) & (bins.times_s < end_s) & ~np.isnan(outcome)
    if not judged.any():
        return {}
    expected = scorer.predict_series(bins.running, round(bins.start_s))["near_peak"]
    return {
        quantile: float((outcome <= expected + offset)[judged].mean())
        for quantile, offset in scorer.peak_offsets.items()
    }


def evidence_of_counts(
    settings: SleepSettings,
    scorer: NodeDemandScorer | None,
    counts: NodeSeries | str,
    start: datetime,
    end: datetime,
) -> SleepEvidence:
    """Return what the control would have done on counts of nodes in [start, end), replayed in minutes with
    boots; `counts` may be the reason why there are none.
    """
    if isinstance(counts, str):
        return SleepEvidence(unmeasured=counts)
    try:
        window = demand_window(counts, start.timestamp(), end.timestamp())
    except BadInputError as error:
        return SleepEvidence(unmeasured=str(error))
    forecaster = None if scorer is None else RememberingForecaster(scorer)
    figures = figures_of(replay_minutes(window, settings, forecaster))
    demand_min = float(window.running.sum()) * window.step_s / 60
    return SleepEvidence(
        wake_ups_per_day=figures.wake_ups_per_day,
        short_pct=100.0 * (figures.node_minutes_short or 0.0) / demand_min if demand_min > 0 else 0.0,
        coverage={}
        if scorer is None
        else coverage_of(scorer, window.bins, start.timestamp(), end.timestamp()),
    )
