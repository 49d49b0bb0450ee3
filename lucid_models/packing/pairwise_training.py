"""Trains the pairwise packing model: Explainable Boosting Machines on the solo profiles of both jobs.

Bags are made of whole models: bag b neither trains on nor is blind to the pairs in which a model of its group
takes part, so that boosting stops when it no longer helps models that it has not seen, and each bag's
prediction of its own pairs is an honest one. From those the sharing threshold is chosen.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.boosting import BoostingSettings, fit_bags, scorer_of
from lucid_models.packing.pairwise import NO_PAIR, PAIR_FEATURES, PairwiseScorer, pair_features
from lucid_models.packing.tree import FEATURES, PackingSettings

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

# Few rows and noisy speeds: coarse bins, and steps that stop early.
BOOSTING = BoostingSettings(max_rounds=500, max_bins=32, learning_rate=0.1, min_samples_leaf=20)
MAX_BAGS = 12


@dataclass(frozen=True)
class PairTable:
    """Measured pairs: the metrics of both jobs (rows, 4), their models, their speeds (rows, 2)."""

    first: Floats
    second: Floats
    models: NDArray[np.str_]
    speeds: Floats


def read_pair_table(solo: "pd.DataFrame", pairs: "pd.DataFrame") -> PairTable:
    """Join pairs (PAIR_SCHEMA) with the solo profiles (PROFILE_SCHEMA) of both jobs.

    Pairs of which a job has no solo profile are left out. Raises BadInputError when none is
    left.
    """
    profiles = solo.drop_duplicates("job_type").set_index("job_type")
    measured = pairs[pairs["job_type_1"].isin(profiles.index) & pairs["job_type_2"].isin(profiles.index)]
    if measured.empty:
        raise BadInputError(
            f"None of {len(pairs)} pairs has solo profiles of both of its jobs.",
            remedy="Measure the jobs of the pairs alone too, under the same names.",
        )
    sides = [profiles.loc[measured[f"job_type_{side}"]] for side in (1, 2)]
    metrics = [side[list(FEATURES)].to_numpy(dtype=np.float64) for side in sides]
    models = np.stack([side["model"].astype(str).to_numpy(dtype=str) for side in sides], axis=1)
    return PairTable(
        metrics[0], metrics[1], models, measured[["speed_1", "speed_2"]].to_numpy(dtype=np.float64)
    )


def fit_pairwise(
    solo: "pd.DataFrame", pairs: "pd.DataFrame", settings: PackingSettings
) -> tuple[PairwiseScorer, dict[str, Any]]:
    """Learn the speeds of pairs from solo profiles and measured pairs; also says, for people, from what.

    Speeds above 1 count as 1: no job is faster beside another, a measurement that says so is noise. Raises
    BadInputError for pairs of fewer than two models.
    """
    table = read_pair_table(solo, pairs)
    split = model_bags(table.models)
    features = pair_features(table.first, table.second)
    speeds = np.minimum(table.speeds, 1.0)
    boosting = BoostingSettings(**{**vars(BOOSTING), "seed": settings.seed, "bags": split.shape[1]})
    mean, by_bag = fit_head(features, speeds.mean(axis=1), split, boosting)
    low, _ = fit_head(features, speeds.min(axis=1), split, boosting)
    held_out = np.stack([bag.score(features) for bag in by_bag], axis=1)
    rows, bags = np.nonzero(split == -1)
    good = table.speeds.mean(axis=1)[rows] >= settings.medium_from
    threshold = learned_threshold(held_out[rows, bags], good, bags, settings)
    called = held_out[rows, bags] >= threshold
    return PairwiseScorer(mean, low, threshold), {
        "pairs": len(table.speeds),
        "models": int(np.unique(table.models).size),
        "held_out_precision": float(good[called].mean()) if called.any() else None,
        "held_out_recall": float(called[good].mean()) if good.any() else None,
    }


def fit_mean_speed(
    table: PairTable, settings: PackingSettings
) -> tuple[AdditiveScorer, list[AdditiveScorer]]:
    """Fit the mean speed alone: the scorer, and that of each bag.

    Raises BadInputError for pairs of which no model can be held out.
    """
    split = model_bags(table.models)
    boosting = BoostingSettings(**{**vars(BOOSTING), "seed": settings.seed, "bags": split.shape[1]})
    speeds = np.minimum(table.speeds, 1.0).mean(axis=1)
    return fit_head(pair_features(table.first, table.second), speeds, split, boosting)


def model_bags(models: NDArray[np.str_]) -> NDArray[np.int8]:
    """Bags for the EBM, shape (rows, bags): bag b validates (-1) on the pairs, of shape (rows, 2), in which a
    model of its group takes part, and trains on the rest.
    """
    names, index = np.unique(models, return_inverse=True)
    if names.size < 2:
        raise BadInputError(
            f"All {len(models)} pairs are of one model ({names[0]}), so nothing can be held out.",
            remedy="Measure pairs of several models, or train the tree alone.",
        )
    bags = min(names.size, MAX_BAGS)
    group = index.reshape(models.shape) % bags
    validates = (group[:, :, None] == np.arange(bags)).any(axis=1)
    # A bag of models that take part in all pairs would have nothing to learn from.
    usable = ~validates.all(axis=0)
    if not usable.any():
        raise BadInputError(
            "Every model takes part in all pairs, so nothing can be held out.",
            remedy="Measure pairs among more models.",
        )
    return np.where(validates[:, usable], -1, 1).astype(np.int8)


def learned_threshold(
    predicted: Floats, good: NDArray[np.bool_], groups: NDArray[np.intp], settings: PackingSettings
) -> float:
    """The predicted mean speed from which on pairs may share, never below the settings' own."""
    return max(sharing_threshold(predicted, good, groups, settings.pair_precision), settings.medium_from)


def sharing_threshold(
    predicted: Floats, good: NDArray[np.bool_], groups: NDArray[np.intp], precision: float
) -> float:
    """The lowest predicted speed from which on surely enough pairs are good; NO_PAIR when there is none.

    Surely enough: their share, less one standard error over the `groups` (shape (rows,)) that were held out,
    is at least `precision`. Pairs of one model err together, so their number alone says little.
    """
    order = np.argsort(-predicted, kind="stable")
    ranked = predicted[order]
    names, index = np.unique(groups[order], return_inverse=True)
    member = index[:, None] == np.arange(names.size)
    called, hits = member.cumsum(axis=0), (member & good[order, None]).cumsum(axis=0)
    total = np.arange(1, good.size + 1)
    share = hits.sum(axis=1) / total
    # The standard error of a ratio of rows that come in clusters (Cochran, Sampling Techniques, 1977).
    apart = ((hits - share[:, None] * called) ** 2).sum(axis=1)
    error = np.sqrt(apart * names.size / max(names.size - 1, 1)) / total
    last_of_ties = np.append(ranked[1:] < ranked[:-1], True)
    enough = np.flatnonzero((share - error >= precision) & last_of_ties)
    return float(ranked[enough[-1]]) if enough.size else NO_PAIR


def fit_head(
    features: Floats, speeds: Floats, split: NDArray[np.int8], settings: BoostingSettings
) -> tuple[AdditiveScorer, list[AdditiveScorer]]:
    """The scorer of one figure of pairs, and each bag's own: how far those differ is how little is known."""
    model = fit_bags(features, speeds, PAIR_FEATURES, split, settings, None)
    scorer = scorer_of(model, PAIR_FEATURES)
    bags = []
    for bag, intercept in enumerate(np.ravel(np.asarray(model.bagged_intercept_, dtype=np.float64))):
        terms = [
            replace(term, scores=np.asarray(scores[bag], dtype=np.float64))
            for term, scores in zip(scorer.terms, model.bagged_scores_, strict=True)
        ]
        bags.append(AdditiveScorer(PAIR_FEATURES, terms, float(intercept), scorer.link))
    return scorer, bags
