"""Explanations of models as plain data; plots.py draws them.

A global explanation is

    {"model", "unit", "importances": {feature: number, the largest first}, ...}

with, of an additive model, "link", "intercept" and "shapes" (feature -> cuts, scores, spread, rows per bin),
and of a tree "tree" (nested nodes) and "leaves"; "unit" is what scores add up in. A local one is

    {"model", "prediction", "unit", "reason": a sentence for people, ...}

with "intercept", "score", "score_unit", "link" and "terms" (what each feature adds, the largest first), or
with the tree's "decisions" and "share"; "unit" is the prediction's. Importances are mean absolute scores over
the training rows, of a tree Gini importances. The score of an additive prediction is the intercept plus one
number a term, so an explanation is exact: nothing is estimated.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from foundation.float_sums import add_in_order
from lucid_models.additive_scorer import AdditiveScorer


def explain_additive_global(scorer: AdditiveScorer, kind: str, unit: str = "score") -> dict[str, Any]:
    """Importance of each term and the shape function of each feature; `unit` is what scores add up in."""
    importances = scorer.importances()
    order = np.argsort(-importances, kind="stable")
    return {
        "model": kind,
        "unit": unit,
        "link": scorer.link,
        "intercept": scorer.intercept,
        "importances": {scorer.term_names[i]: float(importances[i]) for i in order},
        "shapes": {
            scorer.term_names[i]: _shape(scorer, i) for i in order if len(scorer.terms[i].features) == 1
        },
    }


def explain_additive_row(
    scorer: AdditiveScorer, values: Sequence[float], prediction: float
) -> dict[str, Any]:
    """What each term adds to the score of one row, the largest first, with the feature values that it
    read.
    """
    contributions = scorer.contributions_one(values)
    order = sorted(range(len(contributions)), key=lambda i: (-abs(contributions[i]), i))
    return {
        "prediction": prediction,
        "intercept": scorer.intercept,
        "score": add_in_order(contributions, scorer.intercept),
        "link": scorer.link,
        "terms": [
            {
                "term": scorer.term_names[i],
                "values": [_plain(values[feature]) for feature in scorer.terms[i].features],
                "contribution": float(contributions[i]),
            }
            for i in order
        ],
    }


def _shape(scorer: AdditiveScorer, position: int) -> dict[str, Any]:
    term = scorer.terms[position]
    shape: dict[str, Any] = {
        # The score holds from one edge to the next; the outermost bins are open.
        "cuts": [float(cut) for cut in term.cuts[0]],
        "scores": [float(score) for score in term.scores[1:-1]],
        "rows": [float(weight) for weight in term.weights[1:-1]],
        "missing_score": float(term.scores[0]),
        "missing_rows": float(term.weights[0]),
    }
    if term.spread is not None:
        # Standard deviation between the bags that the score is averaged from.
        shape["spread"] = [float(spread) for spread in term.spread[1:-1]]
        shape["missing_spread"] = float(term.spread[0])
    return shape


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
