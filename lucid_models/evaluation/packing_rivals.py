"""Who takes part when packing models are measured: ours, naive rules, and black boxes on the same features.

A contender learns from solo profiles and measured pairs and judges pairs; most also give Sharing Scores.
`with_leak` is no rival: it shows what the accuracy published with Lucid rests on. The authors' script leaves
the mean speed of a configuration's pairs, which its label is cut from, among the features.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.evaluation import baselines
from lucid_models.evaluation.black_boxes import available
from lucid_models.packing.model import (
    PackingAnalyzeModel,
    PackingSettings,
    feature_matrix,
    mean_partner_speeds,
)
from lucid_models.packing.pairwise import pair_features
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
# Choosing a threshold costs a black box one fit for each held-out group of models.
_DEAR = ("leave_model_out",)


@dataclass(frozen=True)
class Known:
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
class Contender:
    """`fit` makes a judge; `features` are those of configurations; `protocols` None: all of them."""

    name: str
    fit: Callable[[Known, PackingSettings], Judge]
    features: Callable[[pd.DataFrame, pd.DataFrame], Floats]
    protocols: Sequence[str] | None = None


@dataclass(frozen=True)
class _ByScores:
    """Pairs by the sum of their Sharing Scores."""

    classify: Callable[[Floats], Scores]

    def scores(self, features: Floats) -> Scores:
        return self.classify(features)

    def may_share(self, first: Floats, second: Floats) -> NDArray[np.bool_]:
        return np.asarray(self.classify(first) + self.classify(second) <= GSS)


@dataclass(frozen=True)
class _BySpeed:
    """Pairs by a predicted figure and the threshold that it has to reach."""

    predict: Callable[[Floats, Floats], Floats]
    at_least: float

    def scores(self, features: Floats) -> None:
        return None

    def may_share(self, first: Floats, second: Floats) -> NDArray[np.bool_]:
        return self.predict(first, second) >= self.at_least


def _tree(known: Known, settings: PackingSettings) -> Judge:
    def fit(features: Floats, scores: Scores) -> Any:
        return PackingAnalyzeModel(settings).fit_labelled(features, scores).tree

    return _classifier(fit)(known, settings)


def _pairwise(known: Known, settings: PackingSettings) -> Judge:
    scorer, _ = fit_pairwise(known.solo, known.pairs, settings)
    return _BySpeed(lambda first, second: scorer.predict(first, second)[0], scorer.mean_speed_min)


def _classifier(fit: Callable[[Floats, Scores], Any]) -> Callable[[Known, PackingSettings], Judge]:
    """A contender out of what fits a classifier; with one label among the known, that one is its answer."""

    def fitted(known: Known, _: PackingSettings) -> Judge:
        if np.unique(known.scores).size < 2:
            return _majority(known, _)
        model = fit(known.features, known.scores)
        return _ByScores(lambda features: np.asarray(model.predict(features), dtype=np.intp))

    return fitted


def _majority(known: Known, _: PackingSettings) -> Judge:
    frequent = baselines.majority_class(known.scores)
    return _ByScores(lambda features: np.full(len(features), frequent, dtype=np.intp))


def _utilisation_sum(known: Known, settings: PackingSettings) -> Judge:
    """The sum of both GPU utilisations, up to a limit that the same procedure chooses as the pairwise
    model's.
    """
    table = read_pair_table(known.solo, known.pairs)

    def idle(first: Floats, second: Floats) -> Floats:
        return np.asarray(-(first[:, 0] + second[:, 0]))

    rows, bags = np.nonzero(model_bags(table.models) == -1)
    good = table.speeds.mean(axis=1)[rows] >= settings.medium_from
    predicted = idle(table.first, table.second)[rows]
    return _BySpeed(idle, sharing_threshold(predicted, good, bags, settings.pair_precision))


def _pair_regressor(make: Callable[[], Any]) -> Callable[[Known, PackingSettings], Judge]:
    """A contender out of a regressor on the pairwise model's features, its threshold chosen as there."""

    def fitted(known: Known, settings: PackingSettings) -> Judge:
        table = read_pair_table(known.solo, known.pairs)
        features = pair_features(table.first, table.second)
        speed = np.minimum(table.speeds, 1.0).mean(axis=1)
        split = model_bags(table.models)
        held_out = np.zeros(split.shape)
        for bag in range(split.shape[1]):
            test = split[:, bag] == -1
            held_out[test, bag] = make().fit(features[~test], speed[~test]).predict(features[test])
        rows, bags = np.nonzero(split == -1)
        good = table.speeds.mean(axis=1)[rows] >= settings.medium_from
        at_least = sharing_threshold(held_out[rows, bags], good, bags, settings.pair_precision)
        model = make().fit(features, speed)
        return _BySpeed(
            lambda first, second: np.asarray(model.predict(pair_features(first, second)), dtype=np.float64),
            max(at_least, settings.medium_from),
        )

    return fitted


def _metrics(solo: pd.DataFrame, _: pd.DataFrame) -> Floats:
    return feature_matrix(solo)


def _metrics_and_label_source(solo: pd.DataFrame, pairs: pd.DataFrame) -> Floats:
    speeds = mean_partner_speeds(pairs)
    return np.column_stack([feature_matrix(solo), [speeds[str(name)] for name in solo["job_type"]]])


def _with_leak(known: Known, settings: PackingSettings) -> Judge:
    from sklearn.tree import DecisionTreeClassifier

    model = DecisionTreeClassifier(
        max_leaf_nodes=settings.max_leaves,
        min_samples_leaf=settings.min_samples_leaf,
        random_state=settings.seed,
    ).fit(known.features, known.scores)
    return _ByScores(lambda features: np.asarray(model.predict(features), dtype=np.intp))


def _forest(features: Floats, scores: Scores) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=60, random_state=0, n_jobs=1).fit(features, scores)


def _lightgbm(features: Floats, scores: Scores) -> Any:
    from lightgbm import LGBMClassifier

    # Its defaults ask for 20 configurations a leaf, of the 50 that there are.
    return LGBMClassifier(n_estimators=60, min_child_samples=3, **_LIGHTGBM).fit(features, scores)


def _neural_net(features: Floats, scores: Scores) -> Any:
    from sklearn.neural_network import MLPClassifier

    return _scaled(
        MLPClassifier(hidden_layer_sizes=(16,), solver="lbfgs", alpha=1.0, max_iter=500, random_state=0)
    ).fit(features, scores)


def _nearest(features: Floats, scores: Scores) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return _scaled(KNeighborsClassifier(1)).fit(features, scores)


def _pair_lightgbm() -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=100, learning_rate=0.05, **_LIGHTGBM)


def _pair_forest() -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(n_estimators=40, min_samples_leaf=5, random_state=0, n_jobs=1)


def _pair_neural_net() -> Any:
    from sklearn.neural_network import MLPRegressor

    return _scaled(
        MLPRegressor(hidden_layer_sizes=(16,), solver="lbfgs", alpha=1.0, max_iter=500, random_state=0)
    )


def _scaled(model: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), model)


_LIGHTGBM: Mapping[str, Any] = {
    "random_state": 0,
    "n_jobs": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


def _contenders() -> dict[str, Contender]:
    listed = [
        Contender("tree", _tree, _metrics),
        Contender("pairwise", _pairwise, _metrics),
        Contender("rf", _classifier(_forest), _metrics),
        Contender("neural", _classifier(_neural_net), _metrics),
        Contender("nearest_neighbour", _classifier(_nearest), _metrics),
        Contender("majority_class", _majority, _metrics),
        Contender("utilisation_sum_learned", _utilisation_sum, _metrics),
        Contender("pairwise_rf", _pair_regressor(_pair_forest), _metrics, _DEAR),
        Contender("pairwise_neural", _pair_regressor(_pair_neural_net), _metrics, _DEAR),
        Contender("with_leak", _with_leak, _metrics_and_label_source),
    ]
    if "lightgbm" in available():
        listed[2:2] = [Contender("lightgbm", _classifier(_lightgbm), _metrics)]
        listed.append(Contender("pairwise_lightgbm", _pair_regressor(_pair_lightgbm), _metrics, _DEAR))
    return {contender.name: contender for contender in listed}


CONTENDERS: Mapping[str, Contender] = _contenders()
