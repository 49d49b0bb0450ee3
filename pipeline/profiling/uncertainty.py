"""Pairs in the order in which the pairwise packing model would learn most from them.

The model is fitted to the pairs that are measured; its bags, each of which knows nothing of some of the jobs'
models, disagree where little is known. A pair counts by that spread and by how near its predicted mean speed
lies to the decision (0.85: may they share?), since a speed that is far from it need not be known well. It
reads solo profiles and measured pairs, nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.packing.pairwise import LOWEST_SPEED, pair_features
from lucid_models.packing.pairwise_training import fit_mean_speed, read_pair_table
from lucid_models.packing.tree import FEATURES, PackingSettings
from profiler_jobs.plan import Ranked, pair_figures, rank_places, space_filling
from profiler_jobs.tasks import MeasurementTask

Floats = NDArray[np.float64]

# Fewer measured pairs fill the space first: a model of less knows neither speeds nor what it does not know.
FIRST_PAIRS = 40
# How far from the decision a predicted mean speed still matters (one standard deviation).
DECISION_WIDTH = 0.05
# Two pairs closer than this (in ranks) tell nearly the same.
ALIKE = 0.15


@dataclass(frozen=True)
class Uncertainty:
    """A `PairRanking` by the model's spread near the decision; `diverse`: no two of a batch may be alike."""

    settings: PackingSettings = field(default_factory=lambda: PackingSettings(kind="pairwise"))
    first_pairs: int = FIRST_PAIRS
    diverse: bool = False

    def __call__(
        self,
        solo: pd.DataFrame,
        measured: pd.DataFrame,
        settled: Sequence[MeasurementTask],
        candidates: Sequence[MeasurementTask],
    ) -> list[Ranked]:
        """Rank the candidates; by space filling while too little is measured to learn from."""
        if not candidates or len(measured) < self.first_pairs:
            return space_filling(solo, measured, settled, candidates)
        try:
            mean, spread = self._predict(solo, measured, candidates)
        except BadInputError:  # all pairs are of one model, or each model is in all of them
            return space_filling(solo, measured, settled, candidates)
        worth = spread * np.exp(-0.5 * ((mean - self.settings.medium_from) / DECISION_WIDTH) ** 2)
        order = (
            _spread_out(worth, solo, settled, candidates)
            if self.diverse
            else np.argsort(-worth, kind="stable")
        )
        return [
            Ranked(
                candidates[row],
                f"expected at {mean[row]:.2f} of solo speed, bags differ by {spread[row]:.3f}",
            )
            for row in order
        ]

    def _predict(
        self, solo: pd.DataFrame, measured: pd.DataFrame, candidates: Sequence[MeasurementTask]
    ) -> tuple[Floats, Floats]:
        """The predicted mean speed of each candidate, and its standard deviation over the bags."""
        scorer, bags = fit_mean_speed(read_pair_table(solo, measured), self.settings)
        profiles = solo.drop_duplicates("job_type").set_index("job_type")[list(FEATURES)]
        first, second = (
            profiles.loc[[task.job_types[side].name for task in candidates]].to_numpy(dtype=np.float64)
            for side in (0, 1)
        )
        features = pair_features(first, second)
        mean = np.clip(scorer.score(features), LOWEST_SPEED, 1.0)
        return mean, np.stack([bag.score(features) for bag in bags]).std(axis=0)


def _spread_out(
    worth: Floats,
    solo: pd.DataFrame,
    settled: Sequence[MeasurementTask],
    candidates: Sequence[MeasurementTask],
) -> NDArray[np.intp]:
    """Order by worth, each discounted by how alike it is to what is settled and was chosen before it."""
    places = rank_places(pair_figures(solo, [*settled, *candidates]))
    have, offered = places[: len(settled)], places[len(settled) :]
    apart = np.full(len(offered), np.inf)
    for place in have:
        apart = np.minimum(apart, ((offered - place) ** 2).sum(axis=1))
    order = np.empty(len(offered), dtype=np.intp)
    waiting = np.ones(len(offered), dtype=bool)
    for position in range(len(offered)):
        discounted = worth * -np.expm1(-apart / (2 * ALIKE**2))
        best = int(np.argmax(np.where(waiting, discounted, -1.0)))
        order[position], waiting[best] = best, False
        apart = np.minimum(apart, ((offered - offered[best]) ** 2).sum(axis=1))
    return order
