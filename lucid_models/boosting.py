"""Trains additive models with interpret's Explainable Boosting Machine and hands them over as data.

What is common to the throughput and the duration model: numeric features only (categories are encoded by our
own causal statistics), validation bags made of whole blocks of time, one thread, a fixed seed, and a check
that what was learned is finite (one loss is known to diverge on far outliers).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_logs.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer, Term


@dataclass(frozen=True)
class BoostingSettings:
    """How an additive model is boosted; `max_rounds` and `max_bins` cap the cost."""

    objective: str = "rmse"
    bags: int = 4
    max_rounds: int = 2_000
    max_bins: int = 256
    learning_rate: float = 0.04
    min_samples_leaf: int = 4
    interactions: int = 0
    seed: int = 0


@dataclass(frozen=True)
class BoostedModel:
    """What training gives: the scorer, and each row's prediction by bags that did not train on it (link
    scale).
    """

    scorer: AdditiveScorer
    held_out_scores: NDArray[np.float64]


def time_blocked_bags(blocks: NDArray[np.intp], bags: int) -> NDArray[np.int8]:
    """Bags for the EBM, shape (rows, bags): bag b validates (-1) on the blocks b, b + bags, ... and trains on
    the rest.

    `blocks` numbers the block of time of each row (a week, a day): rows of one block are never split between
    training and validation.
    """
    order = np.unique(blocks, return_inverse=True)[1]
    return np.where(order[:, None] % bags == np.arange(bags)[None, :], -1, 1).astype(np.int8)


def boost(
    features: NDArray[np.float64],
    target: NDArray[np.float64],
    feature_names: Sequence[str],
    blocks: NDArray[np.intp],
    settings: BoostingSettings,
    weights: NDArray[np.float64] | None = None,
) -> BoostedModel:
    """Fit an EBM and return it as a scorer.

    Shapes: features (rows, len(feature_names)), target (rows,), blocks (rows,), weights (rows,): how much
    each row counts, > 0 (None: all the same). Raises BadInputError when there is too little to validate on or
    when training diverged.
    """
    from interpret.glassbox import ExplainableBoostingRegressor

    bags = min(settings.bags, np.unique(blocks).size)
    if bags < 2:
        raise BadInputError(
            f"{len(target)} rows in one block of time cannot be split into training and validation.",
            remedy="Give a longer history.",
        )
    matrix = np.ascontiguousarray(features, dtype=np.float64)
    split = time_blocked_bags(blocks, bags)
    model = ExplainableBoostingRegressor(
        feature_names=list(feature_names),
        feature_types=["continuous"] * len(feature_names),
        objective=settings.objective,
        interactions=settings.interactions,
        outer_bags=bags,
        max_rounds=settings.max_rounds,
        max_bins=settings.max_bins,
        learning_rate=settings.learning_rate,
        min_samples_leaf=settings.min_samples_leaf,
        max_delta_step=_largest_step(settings.objective, target),
        n_jobs=1,
        random_state=settings.seed,
    )
    import warnings

    with warnings.catch_warnings():
        # Missing values are meant to be there (no history yet) and our explanations show their score.
        warnings.filterwarnings("ignore", message="Missing values detected")
        warnings.filterwarnings("ignore", message="All-NaN slice encountered")
        model.fit(matrix, target, sample_weight=weights, bags=split)
    scorer = scorer_of(model, feature_names)
    held_out = _held_out_scores(model, scorer, matrix, split)
    if not np.isfinite(held_out).all():
        raise BadInputError("Training did not converge to finite scores.", remedy="Lower the learning rate.")
    return BoostedModel(scorer, held_out)


def _largest_step(objective: str, target: NDArray[np.float64]) -> float:
    """Bound on one boosting step; 0: none.

    Pseudo-Huber's curvature vanishes far from the target, so a bin of few far rows would take a step of any
    size (seen: a score of 1e26). One spread of the target a step is more than any good one needs. The other
    losses need no bound and lose by it.
    """
    return max(1.0, float(np.std(target))) if objective.startswith("pseudo_huber") else 0.0


def scorer_of(model: Any, feature_names: Sequence[str]) -> AdditiveScorer:
    """A fitted EBM over continuous features as an AdditiveScorer that gives equal predictions."""
    terms = []
    for features, scores, weights in zip(
        model.term_features_, model.term_scores_, model.bin_weights_, strict=True
    ):
        cuts = tuple(
            # A feature has one set of cuts for its own shape and, when coarser, one for its pairs.
            np.asarray(model.bins_[i][min(len(features), len(model.bins_[i])) - 1], dtype=np.float64)
            for i in features
        )
        terms.append(
            Term(
                tuple(features),
                cuts,
                np.asarray(scores, dtype=np.float64),
                np.asarray(weights, dtype=np.float64),
            )
        )
    link = str(model.link_)
    if link not in ("identity", "log"):
        raise BadInputError(
            f"The link {link!r} cannot be saved.", remedy="Train with a regression objective."
        )
    intercept = float(np.ravel(model.intercept_)[0])
    if not np.isfinite(intercept) or not all(np.isfinite(term.scores).all() for term in terms):
        raise BadInputError(
            "Training diverged to infinite scores.", remedy="Scale the target or change the loss."
        )
    return AdditiveScorer(list(feature_names), terms, intercept, link)


def _held_out_scores(
    model: Any, scorer: AdditiveScorer, matrix: NDArray[np.float64], split: NDArray[np.int8]
) -> NDArray[np.float64]:
    """Mean score of each row over the bags that validated on it, computed from the bags' own shape
    functions.
    """
    total = np.zeros(len(matrix))
    count = np.zeros(len(matrix))
    for bag in range(split.shape[1]):
        rows = split[:, bag] == -1
        terms = [
            Term(term.features, term.cuts, np.asarray(scores[bag], dtype=np.float64), term.weights)
            for term, scores in zip(scorer.terms, model.bagged_scores_, strict=True)
        ]
        intercept = float(np.ravel(np.asarray(model.bagged_intercept_)[bag])[0])
        own = AdditiveScorer(scorer.feature_names, terms, intercept, scorer.link)
        total[rows] += own.score(matrix[rows])
        count[rows] += 1
    return np.where(count > 0, total / np.maximum(count, 1), scorer.score(matrix))
