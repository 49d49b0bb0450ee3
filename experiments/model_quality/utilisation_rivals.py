"""Rivals of the predictions from computation graphs: Horus' formula as counted by hand, and regressors."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.model_quality.black_boxes import REPEATABLE_LIGHTGBM, available
from lucid_models.evaluation.baselines import scaled
from parts.horus.evaluation import (
    Predict,
    Target,
    UtilisationContender,
    learned,
    own_contenders,
    ridge,
)
from parts.horus.formulas import MemoryModel
from parts.horus.model import ProfiledGraphs

Floats = NDArray[np.float64]
# Without a graph, or without learning from one.
NAIVE = ("mean", "largest", "horus_counts", "batch_size")


def _largest(rows: ProfiledGraphs, target: Target) -> Predict:
    level = float(target.measured(rows).max())
    return lambda new: np.full(len(new), level)


def _horus_counts(rows: ProfiledGraphs, target: Target) -> Predict:
    """Horus's formula as a textbook counts it: four copies of the parameters (Adam), activations and their
    gradients; only the overhead is learned.
    """

    def of(overhead: float, new: ProfiledGraphs) -> Floats:
        return MemoryModel(overhead, 4.0, 2.0).mib(new.columns, new.amp)

    missing = target.measured(rows) - of(0.0, rows)
    overhead = max(0.0, float(np.median(missing)))
    return partial(of, overhead)


def physical_features(rows: ProfiledGraphs) -> Floats:
    """Logarithms of the arithmetic and of the activations an operator brings, and AMP, shape (rows, 3)."""
    columns = rows.columns
    return np.stack(
        [
            np.log10(1e3 + columns["dense_macs"] / columns["operators"]),
            np.log10(1e1 + columns["activation_elements"] / columns["operators"]),
            rows.amp,
        ],
        axis=1,
    )


def all_features(rows: ProfiledGraphs) -> Floats:
    """Horus's features: amounts as logarithms, counts, batch and input size, AMP, shape (rows, features)."""
    columns = rows.columns
    amounts = (
        "dense_macs",
        "depthwise_macs",
        "parameters",
        "activation_elements",
        "input_elements",
        "operators",
    )
    counts = (
        "convolutions",
        "depthwise_convolutions",
        "matrix_products",
        "normalisations",
        "recurrent_steps",
    )
    flops_per_byte = [graph.flops_per_byte for graph in rows.graphs]
    return np.column_stack(
        [
            physical_features(rows),
            *(np.log10(1.0 + columns[name]) for name in amounts),
            *(columns[name] for name in counts),
            np.log2(columns["batch_size"]),
            np.log10(flops_per_byte),
        ]
    )


def _nearest() -> Any:
    from sklearn.neighbors import KNeighborsRegressor

    return scaled(KNeighborsRegressor(5))


def _forest() -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(n_estimators=40, min_samples_leaf=2, random_state=0, n_jobs=1)


def _lightgbm() -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(
        n_estimators=60,
        num_leaves=4,
        min_child_samples=4,
        **REPEATABLE_LIGHTGBM,
    )


def _ebm() -> Any:
    from interpret.glassbox import ExplainableBoostingRegressor

    return ExplainableBoostingRegressor(
        interactions=0,
        outer_bags=1,
        max_rounds=300,
        max_bins=16,
        min_samples_leaf=4,
        monotone_constraints=[1, 1, 0],
        random_state=0,
        n_jobs=1,
    )


def all_contenders() -> list[UtilisationContender]:
    """Return our model, the naive ones and every rival."""
    ours, mean, batch_size = own_contenders()
    listed = [
        ours,
        mean,
        UtilisationContender("largest", _largest, ("gpu_mem_mib",)),
        UtilisationContender("horus_counts", _horus_counts, ("gpu_mem_mib",)),
        batch_size,
        learned("ridge", ridge, physical_features, on_scale=True),
        learned("ridge_all", ridge, all_features, on_scale=True),
        learned("nearest", _nearest, physical_features, on_scale=False),
        learned("rf", _forest, all_features, on_scale=False),
        learned("ebm", _ebm, physical_features, on_scale=True),
    ]
    if "lightgbm" in available():
        listed.append(learned("lightgbm", _lightgbm, all_features, on_scale=False))
    return listed
