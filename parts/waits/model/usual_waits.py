"""Forecasts lean on how long jobs exactly alike usually waited, where some have started.

The additive model is a mean over all that a queue shows; the usual wait is what just those jobs had, a
median. A share of it in the forecast puts more of them within a factor of two
(docs/decisions/0070-waits-learned-from-the-queue.md).
"""

from typing import Any

import numpy as np

from foundation.float_sums import add_in_order
from lucid_models.groups import Floats

USUAL_WAIT = "usual_wait_of_alike"
USUAL_SHARE = 0.2


def leaning(said: Floats, usual: Floats, share: float = USUAL_SHARE) -> Floats:
    """Forecasts `said`, drawn by `share` to the usual waits, logarithms of shape (rows,); NaN: none is
    known, and the forecast stays.
    """
    return np.where(np.isnan(usual), said, said + share * (usual - said))


def leaning_terms(explained: dict[str, Any], usual: float, share: float) -> dict[str, Any]:
    """An explanation of one row (`explain_additive_row`) with terms that add up to the leaning forecast."""
    if np.isnan(usual) or not share:
        return explained
    drawn = share * (usual - explained["intercept"])
    terms = [
        term
        | {"contribution": (1 - share) * term["contribution"] + (drawn if term["term"] == USUAL_WAIT else 0)}
        for term in explained["terms"]
    ]
    if all(term["term"] != USUAL_WAIT for term in terms):
        terms.append({"term": USUAL_WAIT, "values": [usual], "contribution": drawn})
    terms.sort(key=lambda term: -abs(term["contribution"]))
    score = add_in_order((term["contribution"] for term in terms), explained["intercept"])
    return explained | {"score": score, "terms": terms}
