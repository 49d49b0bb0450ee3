"""Measures the packing model: how well it labels configurations that it has not seen, and what its pair rule
does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models import baselines
from lucid_models.packing import PackingAnalyzeModel, PackingSettings, feature_matrix, label_configurations

Row = dict[str, Any]
Classify = Callable[[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]], NDArray[np.intp]]
GSS = 2  # two jobs may share when their Sharing Scores sum to at most this (Lucid section 3.3)


def evaluate_packing(
    solo: pd.DataFrame, pairs: pd.DataFrame, settings: PackingSettings | None = None
) -> list[Row]:
    """Rows {model, protocol, accuracy, severe_errors, precision_mean, recall_mean, precision_min,
    recall_min}.

    Protocols: `loo` leaves out one configuration at a time, `leave_model_out` every configuration of one
    model; `fixed` rules are not trained. Severe errors call Tiny Jumbo or the reverse. The pair rule calls a
    pair good when its scores sum to at most GSS; a pair truly is when its mean (or minimum) normalised speed
    is at least the medium threshold. Configurations without measured pairs have no label and take no part.
    """
    rules = settings or PackingSettings()
    labels = label_configurations(solo, pairs, rules)
    table = solo.set_index("job_type").loc[list(labels.job_types)].reset_index()
    features = feature_matrix(table)
    groups = {
        "loo": np.arange(len(table)),
        "leave_model_out": np.unique(table["model"].astype(str), return_inverse=True)[1],
    }

    def tree(
        known: NDArray[np.float64], scores: NDArray[np.intp], new: NDArray[np.float64]
    ) -> NDArray[np.intp]:
        return PackingAnalyzeModel(rules).fit_labelled(known, scores).tree.predict(new)

    rows: list[Row] = []
    for name, classify in (("tree", tree), ("rf", _forest), ("majority_class", _majority)):
        for protocol, group in groups.items():
            predicted = _held_out(features, labels.scores, group, classify)
            scores = dict(zip(labels.job_types, predicted.tolist(), strict=True))
            total = pairs["job_type_1"].map(scores) + pairs["job_type_2"].map(scores)
            rows.append(
                {
                    "model": name,
                    "protocol": protocol,
                    "accuracy": float((predicted == labels.scores).mean()),
                    "severe_errors": float((np.abs(predicted - labels.scores) == 2).mean()),
                    **_pair_metrics(pairs, (total <= GSS).to_numpy(dtype=np.bool_), rules.medium_from),
                }
            )
    utilisation = dict(zip(solo["job_type"].astype(str), solo["gpu_util_pct"].astype(float), strict=True))
    good = baselines.utilisation_sum_rule(utilisation, pairs)
    rows.append(
        {
            "model": "utilisation_sum",
            "protocol": "fixed",
            "accuracy": None,
            "severe_errors": None,
            **_pair_metrics(pairs, good, rules.medium_from),
        }
    )
    return rows


def _held_out(
    features: NDArray[np.float64], scores: NDArray[np.intp], group: NDArray[np.intp], classify: Classify
) -> NDArray[np.intp]:
    """Prediction of each configuration by a model that saw no configuration of its group."""
    predicted = np.empty(len(scores), dtype=np.intp)
    for left_out in np.unique(group):
        new = group == left_out
        known = scores[~new]
        if np.unique(known).size < 2:
            predicted[new] = baselines.majority_class(known)
        else:
            predicted[new] = classify(features[~new], known, features[new])
    return predicted


def _forest(
    known: NDArray[np.float64], scores: NDArray[np.intp], new: NDArray[np.float64]
) -> NDArray[np.intp]:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=60, random_state=0, n_jobs=1).fit(known, scores)
    return np.asarray(forest.predict(new), dtype=np.intp)


def _majority(
    known: NDArray[np.float64], scores: NDArray[np.intp], new: NDArray[np.float64]
) -> NDArray[np.intp]:
    return np.full(len(new), baselines.majority_class(scores), dtype=np.intp)


def _pair_metrics(
    pairs: pd.DataFrame, called_good: NDArray[np.bool_], at_least: float
) -> dict[str, float | None]:
    speeds = pairs[["speed_1", "speed_2"]].to_numpy(dtype=np.float64)
    result: dict[str, float | None] = {}
    for name, speed in (("mean", speeds.mean(axis=1)), ("min", speeds.min(axis=1))):
        good = speed >= at_least
        hits = int((called_good & good).sum())
        result[f"precision_{name}"] = hits / int(called_good.sum()) if called_good.any() else None
        result[f"recall_{name}"] = hits / int(good.sum()) if good.any() else None
    return result
