"""Merges additive models over the same features into one that scores like their average.

A sum of shape functions is linear in them, so the average of several models (seeds, training windows) is
again one additive model: as explainable as each of them, and hardly dearer to score. Cuts are united, so
nothing is rounded to another model's bins.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cluster_logs.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer, Term

Floats = NDArray[np.float64]


def average_scorers(
    scorers: Sequence[AdditiveScorer], shares: Sequence[float] | None = None
) -> AdditiveScorer:
    """The scorer whose score is the average of the scorers' scores, weighted by `shares` (default: equal).

    With a log link that is the geometric mean of the predictions. A term that some scorer lacks counts as
    zero there. The training rows of a bin are averaged too, divided evenly where another model cuts it; the
    spread of a score is that within and between the models. Raises BadInputError for no scorer, different
    features or links, and shares that are not positive.
    """
    if not scorers:
        raise BadInputError("There is no scorer to average.", remedy="Give at least one.")
    first = scorers[0]
    for number, scorer in enumerate(scorers):
        if scorer.feature_names != first.feature_names:
            raise BadInputError(
                f"Scorer {number} reads other features than the first, or the same in another order.",
                remedy="Average models of the same features.",
            )
        if scorer.link != first.link:
            raise BadInputError(
                f"Scorers with the links {first.link} and {scorer.link} cannot be averaged.",
                remedy="Average models of the same loss.",
            )
    share = np.full(len(scorers), 1.0) if shares is None else np.asarray(shares, dtype=np.float64)
    if share.shape != (len(scorers),) or not (np.isfinite(share) & (share > 0)).all():
        raise BadInputError(
            f"{len(scorers)} scorers cannot be averaged by the shares {list(np.ravel(share))}.",
            remedy="Give one positive number a scorer.",
        )
    share /= share.sum()
    found: dict[tuple[int, ...], list[tuple[float, Term]]] = {}
    for weight, scorer in zip(share.tolist(), scorers, strict=True):
        for term in scorer.terms:
            found.setdefault(term.features, []).append((weight, term))
    terms = [_average_terms(parts) for parts in found.values()]
    intercept = float(share @ np.array([scorer.intercept for scorer in scorers]))
    return AdditiveScorer(first.feature_names, terms, intercept, first.link)


def _average_terms(parts: Sequence[tuple[float, Term]]) -> Term:
    """One term from those of several models over the same features, with the share of each model."""
    features = parts[0][1].features
    cuts = tuple(
        np.unique(np.concatenate([term.cuts[side] for _, term in parts])) for side in range(len(features))
    )
    shape = tuple(one.size + 3 for one in cuts)
    scores, squares, weights = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for share, term in parts:
        bins = np.ix_(*(_old_bins(new, old) for new, old in zip(cuts, term.cuts, strict=True)))
        scores += share * term.scores[bins]
        pieces = np.ones(term.scores.shape)
        for side, index in enumerate(bins):
            split = np.bincount(index.ravel(), minlength=term.scores.shape[side])
            pieces *= split.reshape([-1 if axis == side else 1 for axis in range(len(bins))])
        weights += share * (term.weights / pieces)[bins]
        squares += share * np.square(term.scores[bins])
        if term.spread is not None:
            squares += share * np.square(term.spread[bins])
    told = all(term.spread is not None for _, term in parts)
    # A model without the term scores it zero, which the mean and the squares count as such.
    spread = np.sqrt(np.maximum(squares - np.square(scores), 0.0)) if told else None
    return Term(features, cuts, scores, weights, spread)


def _old_bins(new_cuts: Floats, old_cuts: Floats) -> NDArray[np.intp]:
    """The bin of an old table that holds each bin of the new one, whose cuts include the old ones."""
    lower_edges = np.concatenate([[-np.inf], new_cuts])
    inner = np.searchsorted(old_cuts, lower_edges, side="right") + 1
    return np.concatenate([[0], inner, [old_cuts.size + 2]]).astype(np.intp)
