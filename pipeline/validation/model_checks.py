"""What the held-out window says of a release's models themselves, beside naive baselines on the same rows.

A release is refused for a model that gives unusable numbers, or that is worse than what one would do without
it; the replay alone could hide that on a quiet window.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from foundation.errors import ReleaseRefusedError
from lucid_models.duration.model import epoch_seconds
from lucid_models.evaluation.baselines import majority_class
from lucid_models.packing.model import label_configurations
from lucid_models.releases.lifecycle import ReleaseModels
from lucid_models.releases.manifest import ReleaseManifest
from lucid_models.releases.store import check_provenance
from lucid_models.throughput.scorer import SERIES
from pipeline.validation.contenders import sharing_scores, user_name_estimates_s
from pipeline.validation.forecast_beliefs import SeriesForecast
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.gate.bootstrap import block_numbers
from simulator.gate.model_errors import ModelErrors, not_worse_than_naive, usable_predictions
from simulator.gate.rules import GateRules
from simulator.gate.verdict import Constraint

Floats = NDArray[np.float64]
_SPOKEN = {"submitted_gpu_jobs": "job forecasts", "submitted_gpus": "GPU forecasts"}


def check_models(
    release: ReleaseModels,
    inputs: ReplayInputs,
    beliefs: Mapping[str, Floats],
    forecasts: Mapping[str, SeriesForecast] | None,
    rules: GateRules,
) -> list[Constraint]:
    """All that the window says of a release's models.

    `beliefs`: estimated run times (s) by contender, shape of `inputs.replayed`; without the challenger's
    where those cannot be replayed. `forecasts`: the release's by series, if the lake has throughput.
    """
    constraints = []
    if "challenger" in beliefs:
        naive = {
            "Helios' rolling estimate": beliefs["qssf"],
            "the user-history estimate": beliefs["tsafrir"],
            "the moving average of a user's jobs of that name": user_name_estimates_s(inputs),
        }
        constraints.append(_estimates_beside_naive(beliefs["challenger"], naive, inputs, rules))
    if forecasts is not None:
        constraints += _forecasts(forecasts, inputs.window.start.timestamp(), rules)
    if not release.manifest.orders_only:
        constraints += _sharing_scores(release, inputs, rules)
    return constraints


def check_profiles(manifest: ReleaseManifest, version: int) -> Constraint:
    """Simulated profiles stand against a release of a real log by which jobs share GPUs, unless it allows
    them, as at publication.
    """
    simulated, problem = manifest.provenance.simulated_profiles, None
    try:
        check_provenance(manifest, version)
    except ReleaseRefusedError as error:
        problem = str(error)
    if not simulated:
        sentence = "The packing model learned from measured profiles."
    elif manifest.orders_only:
        sentence = (
            "The packing model learned from simulated profiles and decides nothing: the release orders jobs "
            "and lets none share GPUs."
        )
    elif manifest.provenance.synthetic_logs:
        sentence = "The packing model learned from simulated profiles, and the log is synthetic as well."
    else:
        sentence = (
            "The packing model learned from simulated profiles, which the release allows in its settings."
        )
    return Constraint(
        "simulated_profiles", "models", float(simulated), None, None, problem is None, problem or sentence
    )


def _estimates_beside_naive(
    estimated_s: Floats, naive_s: Mapping[str, Floats], inputs: ReplayInputs, rules: GateRules
) -> Constraint:
    """Run time estimates of the window's jobs beside the best of the naive ones, by |log10| error.

    Arrays have the shape of `inputs.replayed`. The baseline is the best one in hindsight, which is strict.
    """
    judged = inputs.judged
    jobs = inputs.replayed[judged]
    duration = jobs["duration_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    has_ended = np.isfinite(duration)
    truth = np.log10(np.maximum(duration[has_ended], 1.0))

    def errors(seconds: Floats) -> Floats:
        return np.asarray(
            np.abs(np.log10(np.maximum(seconds[judged][has_ended], 1.0)) - truth), dtype=np.float64
        )

    by_name = {name: errors(values) for name, values in naive_s.items()}
    best = min(by_name, key=lambda name: (float(by_name[name].mean()) if has_ended.any() else 0.0, name))
    submit_s = epoch_seconds(jobs, "submit_time")[has_ended]
    return not_worse_than_naive(
        ModelErrors(
            "run time estimates",
            "mean error",
            "powers of ten",
            best,
            errors(estimated_s),
            by_name[best],
            block_numbers(submit_s, jobs["virtual_cluster"].to_numpy(dtype=object)[has_ended]),
        ),
        rules,
    )


def _forecasts(series: Mapping[str, SeriesForecast], start_s: float, rules: GateRules) -> list[Constraint]:
    """Forecasts of the bins from `start_s` (Unix seconds) on: usable, and beside the best naive one.

    Judged by what the sharing strategy reads of them: the mean load of the bins to come, up to the lead.
    """
    constraints = []
    for name in SERIES:
        forecast = series[name]
        inside = forecast.starts_s >= start_s
        constraints.append(usable_predictions(_SPOKEN[name], forecast.forecast[inside], 0.0, None))
        naive = {
            "the load of the last hour": forecast.present,
            "the load a day before": forecast.a_day_before,
        }
        rows = inside & np.isfinite(forecast.came) & np.isfinite(forecast.to_come)
        for values in naive.values():
            rows &= np.isfinite(values)
        errors = {key: np.abs(values - forecast.came)[rows] for key, values in naive.items()}
        best = min(errors, key=lambda key: (float(errors[key].mean()) if rows.any() else 0.0, key))
        starts = forecast.starts_s[rows].astype(np.float64)
        constraints.append(
            not_worse_than_naive(
                ModelErrors(
                    _SPOKEN[name],
                    "mean absolute error",
                    f"per {forecast.bin_s} s",
                    best,
                    np.abs(forecast.to_come - forecast.came)[rows],
                    errors[best],
                    block_numbers(starts, ["all"] * int(rows.sum()), origin_s=start_s),
                ),
                rules,
            )
        )
    return constraints


def _sharing_scores(release: ReleaseModels, inputs: ReplayInputs, rules: GateRules) -> list[Constraint]:
    """Sharing Scores: usable, and on the measured configurations clearly better than the commonest score.

    The model may have learned from these very measurements, so equality with a guess is not enough.
    """
    packing, profiles = release.packing, inputs.measured
    labels = label_configurations(profiles.solo, profiles.pairs, packing.settings)
    paired = profiles.solo.set_index("job_type").loc[list(labels.job_types)]
    columns = ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "amp")
    scores = np.asarray(
        packing.predict(*(paired[name].to_numpy(dtype=np.float64) for name in columns)), dtype=np.float64
    )
    wrong, naively_wrong = scores != labels.scores, labels.scores != majority_class(labels.scores)
    errors = ModelErrors(
        "sharing scores",
        "share of wrong ones",
        "of all",
        "always the commonest score",
        np.asarray(wrong, dtype=np.float64),
        np.asarray(naively_wrong, dtype=np.float64),
        np.arange(scores.size),
        must_win=True,
    )
    replayed = sharing_scores(packing, inputs)
    # Jobs without a profile have no score.
    all_scores = np.concatenate([scores, replayed[~np.isnan(replayed)]])
    return [usable_predictions("sharing scores", all_scores, 0.0, 2.0), not_worse_than_naive(errors, rules)]
