"""The releases and policies of a validation, replayed side by side on the held-out window."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.validation import validate_table
from foundation.progress import Progress
from lucid_models.releases.lifecycle import ReleaseModels
from pipeline.validation.contenders import (
    ReplayContender,
    release_contender,
    replay_contender,
    rival_contenders,
)
from pipeline.validation.forecast_beliefs import SeriesForecast, believed_throughput, forecast_series
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.gate.metrics import EstimateCheck, check_estimates
from simulator.gate.rules import GateRules
from simulator.results.result import SimulationResult
from simulator.workload.forecast import ThroughputForecast

PREDICTIONS = "duration_predictions"  # a suite of cluster_logs.expectations


@dataclass(frozen=True)
class Candidate:
    """A release to judge or to judge against."""

    version: int
    models: ReleaseModels


@dataclass(frozen=True)
class Candidates:
    """The release to judge, and the one that is live."""

    challenger: Candidate
    champion: Candidate | None = None  # None: there is none to judge against
    is_champion: bool = False  # the challenger is itself live
    remarks: tuple[str, ...] = ()

    @property
    def loaded(self) -> dict[str, ReleaseModels]:
        """The releases by the names that they have as contenders."""
        champion = {} if self.champion is None else {"champion": self.champion.models}
        return {"challenger": self.challenger.models, **champion}

    def forecasts(self, throughput: pd.DataFrame | None) -> dict[str, dict[str, SeriesForecast]]:
        """Each release's forecasts by contender and series; empty without throughput."""
        if throughput is None:
            return {}
        return {name: forecast_series(models.throughput, throughput) for name, models in self.loaded.items()}


@dataclass(frozen=True)
class Contest:
    """All that can be replayed, and what the releases' predictions are worth before anything is."""

    contenders: tuple[ReplayContender, ...]
    estimates: EstimateCheck  # of the challenger
    reference: str | None  # the champion's name among the contenders
    remarks: tuple[str, ...]

    def beliefs(self) -> dict[str, NDArray[np.float64]]:
        """Estimated run times (s) by contender, of the rows of `ReplayInputs.replayed`; empty: none."""
        return {contender.name: _beliefs(contender) for contender in self.contenders}


def make_contest(
    candidates: Candidates,
    inputs: ReplayInputs,
    jobs: pd.DataFrame,
    forecasts: Mapping[str, Mapping[str, SeriesForecast]],
) -> Contest:
    """Have everything predicted. `jobs`: all of the lake until the window ends, with known profiles."""
    rivals = rival_contenders(inputs)
    rolling = next(r.estimated_duration_s for r in rivals if r.name == "qssf")
    assert rolling is not None  # noqa: S101 - made three lines above
    judged = inputs.judged
    contenders: list[ReplayContender] = []

    def running(name: str, release: ReleaseModels) -> ReplayContender:
        forecast = _load_to_come(forecasts.get(name), inputs)
        return release_contender(name, release, inputs, rolling, jobs, forecast)

    first = running("challenger", candidates.challenger.models)
    estimates = _check(_beliefs(first)[judged])
    if estimates.usable and _known_scores(first):
        contenders.append(first)
    reference, remarks = None, []
    champion = candidates.champion
    if champion is not None:
        second = running("champion", champion.models)
        if check_estimates(_beliefs(second)[judged]).usable and _known_scores(second):
            contenders.append(second)
            reference = "champion"
        else:
            remarks.append(
                f"The champion (release {champion.version}) gives unusable predictions on this window and "
                "was not replayed."
            )
    return Contest((*contenders, *rivals), estimates, reference, tuple(remarks))


def _known_scores(contender: ReplayContender) -> bool:
    scores = contender.sharing_scores
    return scores is None or bool(np.isin(scores[np.isfinite(scores)], (0, 1, 2)).all())


def _load_to_come(
    series: Mapping[str, SeriesForecast] | None, inputs: ReplayInputs
) -> ThroughputForecast | None:
    if series is None or not all(np.isfinite(forecast.forecast).all() for forecast in series.values()):
        return None  # what is not finite `check_models` refuses, and a policy could do nothing with it
    return believed_throughput(series, inputs.origin, inputs.window.end)


def _check(estimated_duration_s: NDArray[np.float64]) -> EstimateCheck:
    """The gate's own count, and the expectations that every model's predictions must meet."""
    checked = validate_table(pd.DataFrame({"estimated_duration_s": estimated_duration_s}), PREDICTIONS)
    return replace(check_estimates(estimated_duration_s), failed_expectations=checked.failed)


def _beliefs(contender: ReplayContender) -> NDArray[np.float64]:
    return np.empty(0) if contender.estimated_duration_s is None else contender.estimated_duration_s


def replay_all(
    contest: Contest, inputs: ReplayInputs, rules: GateRules, progress: Progress
) -> dict[str, SimulationResult]:
    """Replay every contender; results by name."""
    contenders = contest.contenders
    predicted = predicted_jobs(inputs, rules)
    results = {}
    for index, contender in enumerate(contenders):
        progress(index, len(contenders), f"replaying {contender.name}")

        def within(
            done: int,
            total: int | None,
            what: str,
            index: int = index,
            contender: ReplayContender = contender,
        ) -> None:
            progress(index, len(contenders), f"replaying {contender.name}: {done:,} of {total or 0:,} jobs")

        results[contender.name] = replay_contender(
            contender,
            inputs,
            progress=within,
            # Of releases alone: no other ends are compared.
            predict=predicted if contender.name in ("challenger", "champion") else (),
            predict_by="truth" if rules.foretold_by == "true" else "estimates",
        )
    return results


def predicted_jobs(inputs: ReplayInputs, rules: GateRules) -> frozenset[str]:
    """The ids of the window's jobs with predicted ends: all, or as many as the rules say at random."""
    if not rules.judges_predictions:
        return frozenset()
    ids = inputs.replayed.loc[inputs.judged, "job_id"].astype(str).to_numpy(dtype=object)
    if len(ids) > rules.foretold_jobs:
        ids = np.random.default_rng(rules.seed).choice(ids, rules.foretold_jobs, replace=False)
    return frozenset(ids.tolist())
