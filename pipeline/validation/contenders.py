"""The policies that a validation replays, each with what it believes about run times and sharing."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError
from foundation.progress import Progress
from live_scheduler.deciding.live_policies import believed_pairs
from lucid_models.evaluation.rival_estimates import known_from_s, user_name_s
from lucid_models.packing.model import PackingAnalyzeModel
from lucid_models.qssf import rolling
from lucid_models.releases.lifecycle import ReleaseModels
from lucid_models.releases.manifest import ReleaseManifest
from lucid_models.releases.store import ALLOW_SIMULATED
from pipeline.validation.replay_inputs import ReplayInputs, with_profiles
from simulator.gate.rules import SITE_ORDER
from simulator.policy import Policy
from simulator.prediction import PredictBy
from simulator.recorder import Recorder
from simulator.replay import simulate
from simulator.results.result import SimulationResult
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import BelievedPairs
from simulator.workload.forecast import ThroughputForecast
from simulator.workload.job import JobProfile
from simulator.workload.user_history_estimates import user_history_estimates

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ReplayContender:
    """A policy with its beliefs, None where it has none; arrays hold one a row of `ReplayInputs.replayed`.

    A policy that is already made has no `settings` beside its own.
    """

    name: str
    policy: str | Policy
    estimated_duration_s: Floats | None = None
    sharing_scores: Floats | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    forecast: ThroughputForecast | None = None
    believed_pairs: BelievedPairs | None = None


def rival_contenders(inputs: ReplayInputs) -> list[ReplayContender]:
    """The site's order, FIFO, SJF (an oracle), QSSF with Helios' rolling estimate, the user-history estimate,
    Tiresias.
    """
    order = inputs.order
    return [
        ReplayContender(
            SITE_ORDER, order.policy, order.estimates_s(len(inputs.replayed)), settings=order.settings
        ),
        ReplayContender("fifo", "fifo"),
        ReplayContender("sjf", "sjf"),
        ReplayContender("qssf", "qssf", rolling_estimates_s(inputs)),
        # Tsafrir et al. estimate run times; their order (shortest expected service first) is QSSF's.
        ReplayContender("tsafrir", "qssf", user_estimates_s(inputs)),
        ReplayContender("tiresias", "tiresias"),
    ]


def release_contender(
    name: str,
    release: ReleaseModels,
    inputs: ReplayInputs,
    rolling_s: Floats,
    jobs: pd.DataFrame,
    forecast: ThroughputForecast | None = None,
) -> ReplayContender:
    """The policy that a release runs, with its estimates, sharing scores, throughput forecast and settings.

    `jobs` are all jobs of the lake until the window's end. Each job of the window is estimated from what had
    ended by its submission; jobs of the warm-up, which the model may have learned from, go by `rolling_s`.
    """
    until = learned_until(release.manifest)
    submit = pd.to_datetime(jobs["submit_time"], utc=True)
    # A release that learned from a part of the window (an older champion cannot, another cluster's might).
    begins = inputs.window.start if until is None else min(until, inputs.window.start)
    fresh = jobs[submit >= begins]
    causal = release.duration.predict_causal(fresh, earlier=jobs[submit < begins])
    by_row = pd.Series(causal, index=_keys(fresh))
    estimates = rolling_s.copy()
    inside = inputs.in_window
    estimates[inside] = by_row.loc[_keys(inputs.replayed[inside])].to_numpy(dtype=np.float64)
    settings = {key: value for key, value in release.manifest.settings.items() if key != ALLOW_SIMULATED}
    scores = sharing_scores(release.packing, inputs)
    pairs = believed_pairs(release.packing)
    return ReplayContender(name, release.manifest.policy, estimates, scores, settings, forecast, pairs)


def learned_until(manifest: ReleaseManifest) -> datetime | None:
    """Until when a release's models have learned."""
    return None if manifest.training.until is None else datetime.fromisoformat(manifest.training.until)


def rolling_estimates_s(inputs: ReplayInputs) -> Floats:
    """Return Helios' rolling estimate of each replayed job."""
    return rolling.rolling_estimates_s(_history(inputs))[len(inputs.earlier) :]


def user_name_estimates_s(inputs: ReplayInputs) -> Floats:
    """The moving average of the user's jobs of the same name, of each replayed job."""
    return user_name_s(_history(inputs))[len(inputs.earlier) :]


def user_estimates_s(inputs: ReplayInputs) -> Floats:
    """Tsafrir's estimate of each replayed job."""
    workload = inputs.scenario.workload
    # A job that was withdrawn while it waited never ran: no run time is learnt from it.
    ends_s = np.where(inputs.withdrawn, np.nan, known_from_s(inputs.replayed) - inputs.origin.timestamp())
    rows = np.arange(len(workload)) if workload.rows is None else workload.rows
    ended = pd.to_datetime(known_from_s(inputs.earlier), unit="s", utc=True)
    estimates = np.empty(len(inputs.replayed))
    estimates[rows] = user_history_estimates(
        workload,
        history=inputs.earlier.assign(end_time=ended),
        history_until=inputs.window.start,
        ends_s=ends_s[rows],
    )
    return estimates


def sharing_scores(packing: PackingAnalyzeModel, inputs: ReplayInputs) -> Floats:
    """The packing model's score of every profile, as it is believed to be; NaN where there is none."""
    scores = np.full(len(inputs.profiles), np.nan)
    rows = [i for i, profile in enumerate(inputs.profiles) if profile is not None]
    profiles = [profile for profile in inputs.profiles if profile is not None]
    if rows:
        util, mem_util, mem = np.array([profile.belief for profile in profiles]).T
        amp = np.array([float(profile.amp) for profile in profiles])
        scores[rows] = packing.predict(util, mem_util, mem, amp)
    return scores


def replay_contender(
    contender: ReplayContender,
    inputs: ReplayInputs,
    *,
    progress: Progress | None = None,
    recorder: Recorder | None = None,
    predict: Collection[str] = (),
    predict_by: PredictBy = "estimates",
) -> SimulationResult:
    """Simulate one contender on the warm-up and the window; `recorder` watches.

    `predict`: the ids of the jobs with a predicted end, at their submission.
    """
    result = simulate(
        scenario_of(contender, inputs),
        contender.policy,
        settings=contender.settings,
        predict=predict,
        predict_by=predict_by,
        recorder=recorder,
        progress=progress,
    )
    outgrown = int(result.summary["outgrown_jobs"])
    if outgrown:
        raise BadInputError(
            f"{contender.name} left {outgrown:,} jobs waiting for nodes that their virtual cluster lost.",
            remedy="Have the policy set fewer nodes aside (profiling_nodes).",
        )
    return result


def scenario_of(contender: ReplayContender, inputs: ReplayInputs) -> Scenario:
    """What is replayed, as a contender believes it to be."""
    scenario = inputs.scenario
    workload = scenario.workload
    rows = np.arange(len(workload)) if workload.rows is None else workload.rows
    if contender.estimated_duration_s is not None:
        workload = workload.with_estimates(contender.estimated_duration_s[rows])
    if contender.sharing_scores is not None:
        workload = with_profiles(workload, _scored(inputs.profiles, contender.sharing_scores))
    return replace(
        scenario,
        workload=workload,
        forecast=contender.forecast,
        believed_pairs=contender.believed_pairs,
    )


def _scored(profiles: Sequence[JobProfile | None], scores: Floats) -> list[JobProfile | None]:
    return [
        profile if profile is None or np.isnan(score) else replace(profile, sharing_score=int(score))
        for profile, score in zip(profiles, scores.tolist(), strict=True)
    ]


def _history(inputs: ReplayInputs) -> pd.DataFrame:
    return pd.concat([inputs.earlier, inputs.replayed], ignore_index=True)


def _keys(jobs: pd.DataFrame) -> pd.MultiIndex:
    """The lake's key of a job: a requeued job may come back under its id."""
    return pd.MultiIndex.from_arrays([jobs["job_id"].astype(str), jobs["submit_time"]])
