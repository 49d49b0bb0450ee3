"""Monotone constraints on chosen shape functions, by Pool Adjacent Violators (Lucid section 3.6.1).

An operator who knows that a feature works in one direction (more GPUs, longer jobs) can hold a learned
shape function to it. Neighbouring bins that violate the direction are pooled to their mean, weighted by the
training rows of each bin, until none does: the nearest monotone shape in squared error (Ayer et al., 1955),
with the mean score over the training rows as it was. The bin of missing values has no place in an order and
stays untouched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer, shape_function_values

DIRECTIONS = ("rising", "falling")


@dataclass(frozen=True)
class ConstrainedScorer:
    """A scorer held to `directions` (feature: direction), and the one that it was before."""

    scorer: AdditiveScorer
    before: AdditiveScorer
    directions: Mapping[str, str]

    def moved(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far the constraint moves the score of each feature row, shape (rows,)."""
        total = np.zeros(len(rows))
        for old, new in zip(self.before.terms, self.scorer.terms, strict=True):
            if new is not old:
                values = rows[:, new.features[0]]
                total += shape_function_values(values, new.cuts[0], new.scores - old.scores)
        return total


def check_directions(directions: Mapping[str, str]) -> None:
    """Raise BadInputError for a direction that is not one of DIRECTIONS."""
    for feature, direction in directions.items():
        if direction not in DIRECTIONS:
            raise BadInputError(
                f"The monotone constraint on {feature!r} is {direction!r}.",
                remedy=f"Choose one of: {', '.join(DIRECTIONS)}.",
            )


def constrain(
    scorer: AdditiveScorer, directions: Mapping[str, str], optional: Sequence[str] = ()
) -> ConstrainedScorer:
    """Hold the shape functions of the features named in `directions` to their direction.

    A feature that the model does not have is passed over when it is among `optional` (a log may lack its
    column). Raises BadInputError for any other unknown feature, and for one that takes part in a pair, which
    one shape function cannot hold.
    """
    check_directions(directions)
    names = scorer.feature_names
    for feature in directions:
        if feature not in names and feature not in optional:
            raise BadInputError(
                f"A monotone constraint names {feature!r}, which the model does not read.",
                remedy=f"Choose from: {', '.join(sorted({*names, *optional}))}.",
            )
    applied = {feature: direction for feature, direction in directions.items() if feature in names}
    terms = []
    for term in scorer.terms:
        read = [names[position] for position in term.features if names[position] in applied]
        if not read:
            terms.append(term)
            continue
        if len(term.features) > 1:
            raise BadInputError(
                f"The feature {read[0]!r} has a monotone constraint and takes part in a pair of features.",
                remedy="Train without interactions, or without the constraint.",
            )
        scores = term.scores.copy()
        scores[1:-1] = monotone_scores(scores[1:-1], term.weights[1:-1], applied[read[0]])
        terms.append(replace(term, scores=scores))
    return ConstrainedScorer(AdditiveScorer(names, terms, scorer.intercept, scorer.link), scorer, applied)


def monotone_scores(
    scores: NDArray[np.float64], weights: NDArray[np.float64], direction: str
) -> NDArray[np.float64]:
    """The monotone scores nearest to `scores`, both of shape (bins,), weighted by training rows.

    Bins without a row take the score of the nearest bin below that has some (at the low end: above). Without
    any row all bins count the same.
    """
    from sklearn.isotonic import isotonic_regression

    counted = weights if (weights > 0).any() else np.ones_like(weights)
    filled = np.flatnonzero(counted > 0)
    pooled = isotonic_regression(
        scores[filled], sample_weight=counted[filled], increasing=direction == "rising"
    )
    below = np.maximum(np.searchsorted(filled, np.arange(scores.size), side="right") - 1, 0)
    return np.asarray(pooled, dtype=np.float64)[below]
