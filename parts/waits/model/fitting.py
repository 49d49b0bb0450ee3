"""Learning from a queue's past: from some of many jobs alike, and from waits that are not over.

Hundreds of alike jobs of one moment say little more than a few of them, so that at most ALIKE_ROWS of them
are learned from, and a crowd of n counts as the square root of n jobs. A wait that is not over is longer than
so far: the first fit, of the ended ones, says how much longer on average (Buckley and James, Biometrika 1979,
one step), the second learns from all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.boosting import BoostingSettings, boost
from lucid_models.groups import Codes, Floats
from lucid_models.training_data import TooLittleDataError
from parts.waits.model.survival import ErrorDistribution
from parts.waits.model.wait_table import WaitTable

BOOSTING = BoostingSettings(bags=2, max_rounds=800, max_bins=64, min_samples_leaf=50, smoothing_rounds=50)


class TooFewWaitsError(TooLittleDataError):
    """A log tells of too few waits to learn from: its cluster hardly has a queue, or it is short."""


LEAST_ROWS = 50
ALIKE_ROWS = 20  # of so many jobs alike at a moment is learned at most
LEAST_MOMENTS = 3

# Features (rows, features), logarithms of waits (rows,), the moment and the weight of each row -> forecasts.
Predict = Callable[[Floats], Floats]
Learner = Callable[[Floats, Floats, Codes, Floats], Predict]


@dataclass(frozen=True)
class WaitSettings:
    """How the model is trained."""

    boosting: BoostingSettings = field(default=BOOSTING)


def fit_before(table: WaitTable, moment: int, settings: WaitSettings, learner: Learner) -> Predict:
    """Learn from the moments before the one numbered `moment`, by what was known at that one.

    Raises BadInputError where that is too little.
    """
    rows, target, weights = learned_rows(table, moment, table.known_at_s(moment), settings, learner)
    return learner(table.matrix[rows], target, table.moment[rows], weights)


def learned_rows(
    table: WaitTable, moments: int, known_at_s: float, settings: WaitSettings, learner: Learner
) -> tuple[Codes, Floats, Floats]:
    """What a model of the first `moments` moments is fitted to, by what was known at `known_at_s`: rows of
    the table, the logarithm of the wait of each, and its weight; errors as `fit_before`.

    Of waits that are not over it is how long they are expected to last, by a fit of those that are.
    """
    rows = _sample(table, moments, settings)
    all_waits, over = table.waits(known_at_s)
    waits, is_over = all_waits[rows], over[rows]
    ended = rows[is_over]
    if np.unique(table.moment[ended]).size < LEAST_MOMENTS or ended.size < LEAST_ROWS:
        raise TooFewWaitsError(
            f"{ended.size} ended waits of {moments} moments are too few to learn from.",
            remedy=f"Give at least {LEAST_ROWS} of {LEAST_MOMENTS} moments.",
        )
    weights = np.sqrt(table.alike) / np.minimum(table.alike, ALIKE_ROWS)
    if is_over.all():
        return rows, waits, weights[rows]
    predict = learner(table.matrix[ended], waits[is_over], table.moment[ended], weights[ended])
    said = predict(table.matrix[rows])
    errors = ErrorDistribution.of(waits - said, is_over, weights[rows])
    target = np.where(is_over, waits, said + errors.mean_beyond(waits - said))
    return rows, target, weights[rows]


def additive_learner(names: tuple[str, ...], boosting: BoostingSettings) -> Learner:
    """Learns by our additive model; validation bags are made of whole moments."""

    def learn(matrix: Floats, target: Floats, moment: Codes, weights: Floats) -> Predict:
        return fit_additive(names, boosting, matrix, target, moment, weights).predict

    return learn


def fit_additive(
    names: tuple[str, ...],
    boosting: BoostingSettings,
    matrix: Floats,
    target: Floats,
    moment: Codes,
    weights: Floats,
) -> AdditiveScorer:
    """The additive model of these rows."""
    return boost(matrix, target, names, moment, boosting, weights).scorer


def _sample(table: WaitTable, moments: int, settings: WaitSettings) -> Codes:
    """Rows to learn from, ascending; what is drawn of a moment does not depend on later ones."""
    picked = []
    for number in range(moments):
        rows = np.flatnonzero(table.moment == number)
        drawn = np.random.default_rng((settings.boosting.seed, number)).random(rows.size)
        picked.append(rows[drawn < ALIKE_ROWS / table.alike[rows]])
    return np.concatenate(picked) if picked else np.empty(0, dtype=np.intp)
