"""Rivals of the packing models: black boxes on the same features, and what a leak is worth.

`with_leak` is no rival: it shows what the accuracy published with Lucid rests on. The authors' script leaves
the mean speed of a configuration's pairs, which its label is cut from, among the features.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments.model_quality.black_boxes import REPEATABLE_LIGHTGBM, available
from lucid_models.evaluation import packing_contenders
from lucid_models.evaluation.baselines import scaled
from lucid_models.evaluation.packing_contenders import (
    ByScores,
    BySpeed,
    Floats,
    Judge,
    LabelledPairs,
    PackingContender,
    Scores,
    classifier,
    configuration_features,
)
from lucid_models.packing.model import PackingSettings, feature_matrix, mean_partner_speeds
from lucid_models.packing.pairwise import pair_features
from lucid_models.packing.pairwise_training import model_bags, read_pair_table, sharing_threshold

# Choosing a threshold costs a black box one fit for each held-out group of models.
_DEAR = ("leave_model_out",)


def _pair_regressor(make: Callable[[], Any]) -> Callable[[LabelledPairs, PackingSettings], Judge]:
    """A contender out of a regressor on the pairwise model's features, its threshold chosen as there."""

    def fitted(known: LabelledPairs, settings: PackingSettings) -> Judge:
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
        return BySpeed(
            lambda first, second: np.asarray(model.predict(pair_features(first, second)), dtype=np.float64),
            max(at_least, settings.medium_from),
        )

    return fitted


def _metrics_and_label_source(solo: pd.DataFrame, pairs: pd.DataFrame) -> Floats:
    speeds = mean_partner_speeds(pairs)
    return np.column_stack([feature_matrix(solo), [speeds[str(name)] for name in solo["job_type"]]])


def _with_leak(known: LabelledPairs, settings: PackingSettings) -> Judge:
    from sklearn.tree import DecisionTreeClassifier

    model = DecisionTreeClassifier(
        max_leaf_nodes=settings.max_leaves,
        min_samples_leaf=settings.min_samples_leaf,
        random_state=settings.seed,
    ).fit(known.features, known.scores)
    return ByScores(lambda features: np.asarray(model.predict(features), dtype=np.intp))


def _forest(features: Floats, scores: Scores) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=60, random_state=0, n_jobs=1).fit(features, scores)


def _lightgbm(features: Floats, scores: Scores) -> Any:
    from lightgbm import LGBMClassifier

    # Its defaults ask for 20 configurations a leaf, of the 50 that there are.
    return LGBMClassifier(n_estimators=60, min_child_samples=3, **REPEATABLE_LIGHTGBM).fit(features, scores)


def _neural_net(features: Floats, scores: Scores) -> Any:
    from sklearn.neural_network import MLPClassifier

    return scaled(
        MLPClassifier(hidden_layer_sizes=(16,), solver="lbfgs", alpha=1.0, max_iter=500, random_state=0)
    ).fit(features, scores)


def _pair_lightgbm() -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=100, learning_rate=0.05, **REPEATABLE_LIGHTGBM)


def _pair_forest() -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(n_estimators=40, min_samples_leaf=5, random_state=0, n_jobs=1)


def _pair_neural_net() -> Any:
    from sklearn.neural_network import MLPRegressor

    return scaled(
        MLPRegressor(hidden_layer_sizes=(16,), solver="lbfgs", alpha=1.0, max_iter=500, random_state=0)
    )


def _contenders() -> dict[str, PackingContender]:
    ours = packing_contenders.CONTENDERS
    listed = [
        ours["tree"],
        ours["pairwise"],
        PackingContender("rf", classifier(_forest), configuration_features),
        PackingContender("neural", classifier(_neural_net), configuration_features),
        ours["nearest_neighbour"],
        ours["majority_class"],
        ours["utilisation_sum_learned"],
        PackingContender("pairwise_rf", _pair_regressor(_pair_forest), configuration_features, _DEAR),
        PackingContender("pairwise_neural", _pair_regressor(_pair_neural_net), configuration_features, _DEAR),
        PackingContender("with_leak", _with_leak, _metrics_and_label_source),
    ]
    if "lightgbm" in available():
        listed[2:2] = [PackingContender("lightgbm", classifier(_lightgbm), configuration_features)]
        listed.append(
            PackingContender(
                "pairwise_lightgbm", _pair_regressor(_pair_lightgbm), configuration_features, _DEAR
            )
        )
    return {contender.name: contender for contender in listed}


CONTENDERS: Mapping[str, PackingContender] = _contenders()
