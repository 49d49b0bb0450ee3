"""Fits a scorer of inference usage: the additive model, the weight of the mean, and which member answers.

The member is the one that erred least in a rolling validation: the newest quarter or so of the history in
FOLDS stretches, each forecast by a model of what lies before it. Below LEAST_HISTORY_S there is no additive
model: the weighted mean of the weight that erred least answers, or the last value where that erred less, and
below LEAST_BINS judged bins the weighted mean of UNJUDGED_WEIGHT.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.boosting import BoostedModel, BoostingSettings
from lucid_models.series.fitting import BinClock, boost_bins
from lucid_models.series.windows import DAY_S, Floats
from parts.lending.load.series import InferenceSeries
from parts.lending.usage.features import WINDOW_BINS, LoadFeatures, ewma
from parts.lending.usage.quantile_tracker import TrackerStart
from parts.lending.usage.scorer import MEMBERS, QUANTILES, InferenceLoadScorer

BOOSTING = BoostingSettings(bags=8, max_bins=32, learning_rate=0.03, smoothing_rounds=200, patience_rounds=50)
# Bags of the fits that only choose a member.
_VALIDATING_BAGS = 4
EWMA_WEIGHTS = (0.3, 0.5, 0.7, 0.9)
UNJUDGED_WEIGHT = 0.5
LEAST_HISTORY_S = 2 * DAY_S
MOST_HISTORY_S = 60 * DAY_S
LEAST_BINS = 30
FOLDS = 3
_SHORTEST_FOLD_S, _LONGEST_FOLD_S = DAY_S // 4, 7 * DAY_S


@dataclass(frozen=True)
class LoadSettings:
    """How the model is trained.

    `utc_offset_s`: the cluster's local time minus UTC. `member`: of MEMBERS; None: chosen.
    """

    utc_offset_s: int = 0
    member: str | None = None
    boosting: BoostingSettings = field(default_factory=lambda: BOOSTING)


def fit_load_scorer(series: InferenceSeries, settings: LoadSettings) -> InferenceLoadScorer:
    """Learn from a series; what is older than MOST_HISTORY_S is left out.

    Raises BadInputError for fewer than LEAST_BINS bins.
    """
    series = newest_bins(series, MOST_HISTORY_S // series.bin_s)
    if series.usage.size < LEAST_BINS:
        raise BadInputError(
            f"{series.usage.size} bins of inference load are too few to learn from.",
            remedy=f"Give at least {LEAST_BINS}.",
        )
    weight = best_ewma_weight(series)
    validation = _validate(series, weight, settings) or _validate_unlearned(series, weight)
    member = settings.member or (min(validation, key=lambda name: validation[name]) if validation else "ewma")
    features = LoadFeatures(series.bin_s, calendar=_is_long(series), utc_offset_s=settings.utc_offset_s)
    learned, errors = _learn(series, weight, member, features, settings.boosting)
    return InferenceLoadScorer(
        features,
        learned,
        member,
        weight,
        TrackerStart.of_errors(errors, QUANTILES),
        {
            "first_bin_s": round(series.start_s),
            "last_bin_s": round(series.last_bin_start_s),
            "bins": int(series.usage.size),
            "gap_bins": int(series.gap.sum()),
            "validation_mse": validation,
            "boosting": settings.boosting.to_data(),
        },
    )


def newest_bins(series: InferenceSeries, most: int) -> InferenceSeries:
    """The newest `most` bins of a series."""
    first = max(0, series.usage.size - most)
    return replace(
        series,
        start_s=series.start_s + first * series.bin_s,
        usage=series.usage[first:],
        gap=series.gap[first:],
    )


def judged_bins(gap: NDArray[np.bool_], window: int = WINDOW_BINS) -> NDArray[np.bool_]:
    """The bins that were measured, and the `window` before each of them too, shape (bins,)."""
    measured = np.concatenate([[0], np.cumsum(~gap)])
    judged = np.zeros(gap.size, dtype=np.bool_)
    judged[window:] = measured[window + 1 :] - measured[: -window - 1] == window + 1
    return judged


def best_ewma_weight(series: InferenceSeries) -> float:
    """The weight of EWMA_WEIGHTS with the mean nearest to the next bin, by squared error.

    UNJUDGED_WEIGHT where fewer than LEAST_BINS bins are judged.
    """
    judged = np.flatnonzero(judged_bins(series.gap, 1))
    if judged.size < LEAST_BINS:
        return UNJUDGED_WEIGHT
    errors = {
        weight: float(np.square(ewma(series.usage, weight)[judged - 1] - series.usage[judged]).mean())
        for weight in EWMA_WEIGHTS
    }
    return min(errors, key=lambda weight: errors[weight])


def member_forecasts(usage: Floats, change: Floats, weight: float) -> dict[str, Floats]:
    """What each member says at the end of every bin; `change` is the additive model's, shape (bins,)."""
    way = ewma(usage, weight) - usage
    return {
        name: np.clip(usage + boosted * change + averaged * way, 0.0, 1.0)
        for name, (boosted, averaged) in MEMBERS.items()
    }


def _validate(series: InferenceSeries, weight: float, settings: LoadSettings) -> dict[str, float]:
    """Mean squared error of each member over the folds; empty for a history that is too short."""
    bins = series.usage.size
    if not _is_long(series):
        return {}
    fold = min(max(bins // 10, _SHORTEST_FOLD_S // series.bin_s), _LONGEST_FOLD_S // series.bin_s)
    fewer = replace(settings.boosting, bags=min(settings.boosting.bags, _VALIDATING_BAGS))
    squares: Mapping[str, list[Floats]] = {name: [] for name in MEMBERS}
    judged = judged_bins(series.gap)
    features = LoadFeatures(series.bin_s, utc_offset_s=settings.utc_offset_s)
    for back in range(FOLDS, 0, -1):
        begin, end = bins - back * fold, bins - (back - 1) * fold
        fitted = _boost(series.first(begin), features, fewer)
        at = begin + np.flatnonzero(judged[begin:end])
        if fitted is None or not at.size:
            continue
        change = fitted[0].scorer.predict(features.matrix(series.usage, round(series.start_s)))
        for name, forecasts in member_forecasts(series.usage, change, weight).items():
            squares[name].append(np.square(forecasts[at - 1] - series.usage[at]))
    return {name: float(np.concatenate(parts).mean()) for name, parts in squares.items() if parts}


def _is_long(series: InferenceSeries) -> bool:
    return series.usage.size * series.bin_s >= LEAST_HISTORY_S


def _validate_unlearned(series: InferenceSeries, weight: float) -> dict[str, float]:
    """Mean squared error of the members that learn nothing, over all bins; empty where too few are judged.

    Each bin is forecast from those before it, so that the whole history is a rolling validation. Of equals
    the weighted mean is the first.
    """
    judged = np.flatnonzero(judged_bins(series.gap, 1))
    if judged.size < LEAST_BINS:
        return {}
    forecasts = member_forecasts(series.usage, np.zeros(series.usage.size), weight)
    return {
        name: float(np.square(forecasts[name][judged - 1] - series.usage[judged]).mean())
        for name in ("ewma", "last_value")
    }


def _learn(
    series: InferenceSeries, weight: float, member: str, features: LoadFeatures, boosting: BoostingSettings
) -> tuple[AdditiveScorer, Floats]:
    """The additive model (without terms if the history is too short), and the member's errors by bins that
    it was not learned from.
    """
    usage = series.usage
    fitted = _boost(series, features, boosting) if _is_long(series) else None
    if fitted is None:
        at = np.flatnonzero(judged_bins(series.gap, 1))
        if not at.size:
            raise BadInputError(
                "No two bins of inference load that follow one another were measured.",
                remedy="Give a longer history.",
            )
        change = np.zeros(usage.size)
        scorer = AdditiveScorer(features.names, [], 0.0)
    else:
        boosted, at = fitted
        change = np.zeros(usage.size)
        change[at - 1] = boosted.held_out_scores
        scorer = boosted.scorer
    forecasts = member_forecasts(usage, change, weight)[member]
    return scorer, usage[at] - forecasts[at - 1]


def _boost(
    series: InferenceSeries, features: LoadFeatures, settings: BoostingSettings
) -> tuple[BoostedModel, NDArray[np.intp]] | None:
    """A fit to the change of each bin with a measured window, and those bins; None: too few of them."""
    at = np.flatnonzero(judged_bins(series.gap))
    if at.size < 4 * LEAST_BINS:
        return None
    matrix = features.matrix(series.usage, round(series.start_s))[at - 1]
    change = series.usage[at] - series.usage[at - 1]
    paired = replace(settings, pairs=features.pairs)
    clock = BinClock(round(series.start_s), series.bin_s, features.utc_offset_s)
    return boost_bins(at, matrix, change, features.names, paired, clock), at
