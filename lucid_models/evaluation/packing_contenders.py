"""What takes part when packing models are measured: our models and naive rules.

A contender learns from solo profiles and measured pairs and judges pairs; most also give Sharing Scores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.evaluation import baselines
from lucid_models.evaluation.baselines import scaled
from lucid_models.packing.model import (
    PackingAnalyzeModel,
    PackingSettings,
    feature_matrix,
)
from lucid_models.packing.pairwise_training import (
    fit_pairwise,
    model_bags,
    read_pair_table,
    sharing_threshold,
)

Floats = NDArray[np.float64]
Scores = NDArray[np.intp]
OURS = "tree"
NAIVE = ("nearest_neighbour", "majority_class", "utilisation_sum_learned")
GSS = 2  # two jobs may share when their Sharing Scores sum to at most this (Lucid section 3.3)


@dataclass(frozen=True)
class LabelledPairs:
    """What a contender may learn from: solo profiles, pairs among them, and the labelled ones' features."""

    solo: pd.DataFrame
    pairs: pd.DataFrame
    features: Floats
    scores: Scores


class Judge(Protocol):
    """A fitted contender."""

    def scores(self, features: Floats) -> Scores | None:
        """Sharing Scores of configurations, shape (rows,); None: it gives none."""

    def may_share(self, first: Floats, second: Floats) -> NDArray[np.bool_]:
        """Whether each pair may share, from the features of both jobs, shape (rows, features)."""


@dataclass(frozen=True)
class PackingContender:
    """`fit` makes a judge; `features` are those of configurations; `protocols` None: all of them."""

    name: str
    fit: Callable[[LabelledPairs, PackingSettings], Judge]
    features: Callable[[pd.DataFrame, pd.DataFrame], Floats]
    protocols: Sequence[str] | None = None


@dataclass(frozen=True)
class ByScores:
    """Pairs by the sum of their Sharing Scores."""

    classify: Callable[[Floats], Scores]

    def scores(self, features: Floats) -> Scores:
        """Return what the classifier answers."""
        return self.classify(features)

    def may_share(self, first: Floats, second: Floats) -> NDArray[np.bool_]:
        """Return whether the scores sum to at most GSS."""
        return np.asarray(self.classify(first) + self.classify(second) <= GSS)


@dataclass(frozen=True)
class BySpeed:
    """Pairs by a predicted figure and the threshold that it has to reach."""

    predict: Callable[[Floats, Floats], Floats]
    at_least: float

    def scores(self, features: Floats) -> None:
        """Give none: a figure of pairs says nothing of one job."""

    def may_share(self, first: Floats, second: Floats) -> NDArray[np.bool_]:
        """Return whether the figure reaches the threshold."""
        return self.predict(first, second) >= self.at_least


def _tree(known: LabelledPairs, settings: PackingSettings) -> Judge:
    def fit(features: Floats, scores: Scores) -> Any:
        return PackingAnalyzeModel(settings).fit_labelled(features, scores).tree

    return classifier(fit)(known, settings)


def _pairwise(known: LabelledPairs, settings: PackingSettings) -> Judge:
    scorer, _ = fit_pairwise(known.solo, known.pairs, settings)
    return BySpeed(lambda first, second: scorer.predict(first, second)[0], scorer.mean_speed_min)


def classifier(fit: Callable[[Floats, Scores], Any]) -> Callable[[LabelledPairs, PackingSettings], Judge]:
    """Return a contender of what fits a classifier; a single label among the known is its answer."""

    def fitted(known: LabelledPairs, _: PackingSettings) -> Judge:
        if np.unique(known.scores).size < 2:
            return _majority(known, _)
        model = fit(known.features, known.scores)
        return ByScores(lambda features: np.asarray(model.predict(features), dtype=np.intp))

    return fitted


def _majority(known: LabelledPairs, _: PackingSettings) -> Judge:
    frequent = baselines.majority_class(known.scores)
    return ByScores(lambda features: np.full(len(features), frequent, dtype=np.intp))


def _utilisation_sum(known: LabelledPairs, settings: PackingSettings) -> Judge:
    """The sum of both GPU utilisations, up to a limit that the same procedure chooses as the pairwise
    model's.
    """
    table = read_pair_table(known.solo, known.pairs)

    def idle(first: Floats, second: Floats) -> Floats:
        return np.asarray(-(first[:, 0] + second[:, 0]))

    rows, bags = np.nonzero(model_bags(table.models) == -1)
    good = table.speeds.mean(axis=1)[rows] >= settings.medium_from
    predicted = idle(table.first, table.second)[rows]
    return BySpeed(idle, sharing_threshold(predicted, good, bags, settings.pair_precision))


def configuration_features(solo: pd.DataFrame, _: pd.DataFrame) -> Floats:
    """Return the packing tree's features of configurations, shape (rows, features)."""
    return feature_matrix(solo)


def _nearest(features: Floats, scores: Scores) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return scaled(KNeighborsClassifier(1)).fit(features, scores)


CONTENDERS: Mapping[str, PackingContender] = {
    contender.name: contender
    for contender in (
        PackingContender("tree", _tree, configuration_features),
        PackingContender("pairwise", _pairwise, configuration_features),
        PackingContender("nearest_neighbour", classifier(_nearest), configuration_features),
        PackingContender("majority_class", _majority, configuration_features),
        PackingContender("utilisation_sum_learned", _utilisation_sum, configuration_features),
    )
}
