"""Measures predictions from computation graphs: how well they do for models without a profile.

Protocol: every model's configurations are left out in turn; what is learned, margins included, is learned
from the others alone (the margins by leaving out each of those in turn again). Folds are pooled. Each
contender gives an expectation, and from it a careful figure by the same procedure as ours
(`formulas.Margins`). `chosen` takes in every fold the contender that did best within the
fold's own training rows, and is thereby measured without having seen what it is measured on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import UnknownNameError
from foundation.progress import Progress, silent
from lucid_models.evaluation.baselines import scaled
from lucid_models.evaluation.measures import Row, cpu_timed, predict_timed
from parts.horus.formulas import Margins, level_of_cost, logit
from parts.horus.graph_features import GraphFeatures
from parts.horus.model import (
    PRIOR_WEIGHT,
    RANGE_SHARE,
    ProfiledGraphs,
    UtilisationSettings,
    fit_memory,
    fit_step,
    join_graphs,
)

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Predict = Callable[[ProfiledGraphs], Floats]
OURS = "formula"
CHOSEN = "chosen"


@dataclass(frozen=True)
class Target:
    """A quantity: where it is measured, and the scale on which margins are added."""

    name: str
    unit: str
    measured: Callable[[ProfiledGraphs], Floats]
    to_scale: Callable[[Floats], Floats]
    from_scale: Callable[[Floats], Floats]
    under_cost: Callable[[UtilisationSettings], float]


@dataclass(frozen=True)
class UtilisationContender:
    """`fit` learns an expectation of a target, in the target's own unit."""

    name: str
    fit: Callable[[ProfiledGraphs, Target], Predict]
    targets: Sequence[str]


def _percent_of(scale: Floats) -> Floats:
    return np.asarray(100.0 / (1.0 + np.exp(-scale)))


def _log(values: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(values, 1.0)))


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            "gpu_util_pct",
            "points",
            lambda rows: rows.gpu_util_pct,
            lambda values: logit(values / 100.0),
            _percent_of,
            lambda settings: settings.util_under_cost,
        ),
        Target(
            "gpu_mem_util_pct",
            "points",
            lambda rows: rows.gpu_mem_util_pct,
            lambda values: logit(values / 100.0),
            _percent_of,
            lambda settings: settings.util_under_cost,
        ),
        Target(
            "gpu_mem_mib",
            "MiB",
            lambda rows: rows.gpu_mem_mib,
            _log,
            lambda scale: np.asarray(np.exp(scale)),
            lambda settings: settings.memory_under_cost,
        ),
    )
}
ALL_TARGETS = tuple(TARGETS)


@dataclass(frozen=True)
class _HeldOut:
    """Of every row, predicted without its model; `inner_error` is each fold's error within its training
    rows.
    """

    expected: Floats
    careful: Floats
    within: NDArray[np.bool_]
    inner_error: Mapping[str, float]


def _leave_models_out(
    rows: ProfiledGraphs, target: Target, contender: UtilisationContender, rules: UtilisationSettings
) -> _HeldOut:
    expected, careful = np.zeros(len(rows)), np.zeros(len(rows))
    within = np.zeros(len(rows), dtype=np.bool_)
    inner_error: dict[str, float] = {}
    level = level_of_cost(target.under_cost(rules))
    without: dict[frozenset[str], Predict] = {}  # two models: the same, whichever of them is the new one
    for name in sorted(set(rows.models)):
        new = rows.of_model(name)
        training = rows.only(~new)
        expected[new] = contender.fit(training, target)(rows.only(new))
        missed, absolute = np.zeros(len(training)), np.zeros(len(training))
        for other in sorted(set(training.models)):
            held_out = training.of_model(other)
            test = training.only(held_out)
            both = frozenset((name, other))
            if both not in without:
                without[both] = contender.fit(training.only(~held_out), target)
            predicted = without[both](test)
            truth = target.measured(test)
            missed[held_out] = target.to_scale(truth) - target.to_scale(predicted)
            absolute[held_out] = np.abs(truth - predicted)
        inner_error[name] = float(np.average(absolute, weights=training.weights))
        margins = Margins.of(missed, training.models, level=level, range_share=RANGE_SHARE)
        centre = target.to_scale(expected[new])
        careful[new] = target.from_scale(centre + margins.careful)
        low, high = (target.from_scale(centre + by) for by in (margins.low, margins.high))
        truth = target.measured(rows.only(new))
        within[new] = (low <= truth) & (truth <= high)
    return _HeldOut(expected, careful, within, inner_error)


def _nested_choice(rows: ProfiledGraphs, held: Mapping[str, _HeldOut]) -> _HeldOut:
    """Of each fold what its best contender says, as judged by its training rows."""
    expected, careful = np.zeros(len(rows)), np.zeros(len(rows))
    within = np.zeros(len(rows), dtype=np.bool_)
    for name in sorted(set(rows.models)):
        best = held[min(held, key=lambda contender: (held[contender].inner_error[name], contender))]
        new = rows.of_model(name)
        expected[new], careful[new], within[new] = best.expected[new], best.careful[new], best.within[new]
    return _HeldOut(expected, careful, within, {})


def _row(name: str, rows: ProfiledGraphs, target: Target, held: _HeldOut) -> Row:
    from scipy.stats import spearmanr

    truth, expected = target.measured(rows), held.expected
    error = expected - truth
    short = truth - held.careful
    under = short > 0
    constant = np.ptp(expected) == 0
    return {
        "target": target.name,
        "model": name,
        "mae": float(np.abs(error).mean()),
        "mape": float(np.abs(error / truth).mean()) if target.unit == "MiB" else None,
        "rmse": float(np.sqrt((error**2).mean())),
        "spearman": None if constant else float(spearmanr(truth, expected).statistic),
        "careful_mae": float(np.abs(short).mean()),
        "under_share": float(under.mean()),
        "under_models": float(np.average(under, weights=rows.weights)),
        "under_mean": float(short[under].mean()) if under.any() else 0.0,
        "within_models": float(np.average(held.within, weights=rows.weights)),
    }


def _cost(contender: UtilisationContender, rows: ProfiledGraphs, target: Target) -> Row:
    predict, fit_s = cpu_timed(partial(contender.fit, rows, target))
    _, predict_ms = predict_timed(partial(predict, rows))
    return {"fit_s": fit_s, "predict_ms": predict_ms}


# Contenders ------------------------------------------------------------------------------------------


def _formula(rows: ProfiledGraphs, target: Target) -> Predict:
    if target.name == "gpu_mem_mib":
        memory = fit_memory(rows)
        return lambda new: memory.mib(new.columns, new.amp)
    step = fit_step(rows, PRIOR_WEIGHT)
    if target.name == "gpu_util_pct":
        return lambda new: 100.0 * step.utilisation(new.columns, new.amp)
    return lambda new: 100.0 * step.memory_utilisation(new.columns, new.amp)


def _mean(rows: ProfiledGraphs, target: Target) -> Predict:
    level = float(np.average(target.measured(rows), weights=rows.weights))
    return lambda new: np.full(len(new), level)


def batch_features(rows: ProfiledGraphs) -> Floats:
    """What is known without a graph, shape (rows, 2): the batch size's logarithm, and AMP."""
    return np.stack([np.log2(rows.columns["batch_size"]), rows.amp], axis=1)


def regression(
    make: Callable[[], Any],
    features: Callable[[ProfiledGraphs], Floats],
    rows: ProfiledGraphs,
    target: Target,
    *,
    on_scale: bool,
) -> Predict:
    """Fit a regressor to the target itself or on its scale; every model weighs what its configurations do."""
    truth = target.measured(rows)
    model = make().fit(features(rows), target.to_scale(truth) if on_scale else truth)

    def predict(new: ProfiledGraphs) -> Floats:
        predicted = np.asarray(model.predict(features(new)), dtype=np.float64)
        inside = target.from_scale(predicted) if on_scale else predicted
        return np.asarray(np.clip(inside, 0.1, 100.0 if target.unit == "points" else None))

    return predict


def ridge() -> Any:
    """Return a ridge regression of standardised features."""
    from sklearn.linear_model import Ridge

    return scaled(Ridge(1.0))


def learned(
    name: str, make: Callable[[], Any], features: Callable[[ProfiledGraphs], Floats], *, on_scale: bool
) -> UtilisationContender:
    """Return a contender that fits a regressor to every target."""
    return UtilisationContender(
        name,
        lambda rows, target: regression(make, features, rows, target, on_scale=on_scale),
        ALL_TARGETS,
    )


def own_contenders() -> list[UtilisationContender]:
    """Return our model and the naive ones that every training is measured beside."""
    return [
        UtilisationContender(OURS, _formula, ALL_TARGETS),
        UtilisationContender("mean", _mean, ALL_TARGETS),
        learned("batch_size", ridge, batch_features, on_scale=True),
    ]


def _find(name: str, known: Mapping[str, UtilisationContender]) -> UtilisationContender:
    if name not in known:
        raise UnknownNameError("model of utilisation", name, known)
    return known[name]


def evaluate_utilisation(
    solo: "pd.DataFrame",
    graphs: Mapping[str, GraphFeatures] | None = None,
    settings: UtilisationSettings | None = None,
    *,
    models: Sequence[str] | None = None,
    contenders: Callable[[], Sequence[UtilisationContender]] = own_contenders,
    progress: Progress = silent,
) -> list[Row]:
    """Rows {target, model, mae, mape, rmse, spearman, careful_mae, under_share, under_models, under_mean,
    within_models, fit_s, predict_ms}, by the module's protocol; `graphs` None: the zoo's; `models` None:
    all of `contenders`.

    `mae`, `mape` (of memory only), `rmse` and `spearman` are of the expectation. Of the careful figure: its
    mean absolute error, the share of configurations that it under-estimates (of memory: that would run out
    of it), the same with every model counting once, and by how much on average where it does.
    `within_models`: the share of configurations within the range, every model counting once. `fit_s`,
    `predict_ms`: CPU time to learn from everything, and to predict all of it once.
    """
    rules = settings or UtilisationSettings()
    rows = join_graphs(solo, graphs)
    contender_of = {contender.name: contender for contender in contenders()}
    to_measure = (
        list(contender_of.values()) if models is None else [_find(name, contender_of) for name in models]
    )
    results: list[Row] = []
    runs = [(target, contender) for target in TARGETS.values() for contender in to_measure]
    held: dict[str, dict[str, _HeldOut]] = {}
    for done, (target, contender) in enumerate(runs):
        progress(done, len(runs), f"{target.name}, {contender.name}")
        if target.name in contender.targets:
            held.setdefault(target.name, {})[contender.name] = _leave_models_out(
                rows, target, contender, rules
            )
    for name, of_target in held.items():
        target = TARGETS[name]
        by_name = {contender.name: contender for contender in to_measure}
        for contender_name, result in of_target.items():
            cost = _cost(by_name[contender_name], rows, target)
            results.append(_row(contender_name, rows, target, result) | cost)
        if models is None:
            choice = _nested_choice(rows, of_target)
            results.append(_row(CHOSEN, rows, target, choice) | {"fit_s": None, "predict_ms": None})
    progress(len(runs), len(runs), "measured")
    return results
