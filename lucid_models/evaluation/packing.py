"""Measures the packing models: how well they judge configurations, and pairs, that they have not seen.

Protocols: `loo` leaves out one configuration at a time, `leave_model_out` every configuration of one model.
What is left out leaves training whole: no pair in which it takes part is learned from, neither as a row nor
in the label of its partner. The test rows of a fold are the configurations that were left out, and all pairs
in which one of them takes part; folds are pooled. So a pair of two models counts twice in leave_model_out,
once as a pair with a new job of either model, and a pair of one model once. `fixed` rules are not trained:
every pair counts once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError, UnknownNameError
from foundation.progress import Progress, silent
from lucid_models.evaluation import baselines
from lucid_models.evaluation.packing_contenders import CONTENDERS, Judge, LabelledPairs, PackingContender
from lucid_models.packing.model import FEATURES, PackingSettings, feature_matrix, label_configurations

Row = dict[str, Any]
Floats = NDArray[np.float64]
PROTOCOLS = ("loo", "leave_model_out")
_TIMED = 3
_LONG_ENOUGH_S = 0.5  # what takes longer is timed once: noise is small beside it


@dataclass(frozen=True)
class _Measured:
    """Configurations that were measured in pairs, and the pairs, as arrays."""

    table: pd.DataFrame
    pairs: pd.DataFrame
    scores: NDArray[np.intp]
    sides: NDArray[np.intp]  # (pairs, 2): the rows of `table`
    speeds: Floats  # (pairs, 2)

    @property
    def features(self) -> Floats:
        return feature_matrix(self.table)


@dataclass(frozen=True)
class _Fold:
    """What is left out, and what may be learned from: labels are made anew, of the pairs that are left."""

    new: NDArray[np.bool_]  # rows of the table that are left out
    test: NDArray[np.bool_]  # pairs in which one of them takes part
    table: pd.DataFrame
    pairs: pd.DataFrame
    labelled: NDArray[np.bool_]  # rows of the whole table
    scores: NDArray[np.intp]  # of the labelled


def evaluate_packing(
    solo: pd.DataFrame,
    pairs: pd.DataFrame,
    settings: PackingSettings | None = None,
    *,
    models: Sequence[str] | None = None,
    protocols: Sequence[str] = PROTOCOLS,
    contenders: Mapping[str, PackingContender] = CONTENDERS,
    progress: Progress = silent,
) -> list[Row]:
    """Rows {model, protocol, accuracy, severe_errors, precision_mean, recall_mean, precision_min, recall_min,
    fit_s, predict_ms}, by the module's protocols; `models` None: all of `contenders`.

    `accuracy` is that of the Sharing Scores (None: the model gives none); severe errors call Tiny Jumbo or
    the reverse. A pair is called good when its Sharing Scores sum to at most GSS, or, by pairwise models,
    when its predicted mean speed reaches the threshold that the training folds chose. It truly is when its
    mean (or lower) normalised speed is at least the medium threshold. `fit_s` and `predict_ms` are CPU time:
    to learn from everything, and to judge all pairs. Configurations without measured pairs have no label and
    take no part.
    """
    rules = settings or PackingSettings()
    measured = _measured(solo, pairs, rules)
    to_measure = [_contender(name, contenders) for name in (models if models is not None else contenders)]
    groups = {
        "loo": measured.table["job_type"].to_numpy(dtype=str),
        "leave_model_out": measured.table["model"].to_numpy(dtype=str),
    }
    runs = [
        (contender, protocol)
        for contender in to_measure
        for protocol in protocols
        if contender.protocols is None or protocol in contender.protocols
    ]
    rows: list[Row] = []
    folds: dict[str, list[_Fold]] = {}  # of each protocol, the same for all contenders
    for done, (contender, protocol) in enumerate(runs):
        progress(done, len(runs), f"{contender.name}, {protocol}")
        if protocol not in folds:
            folds[protocol] = _folds(measured, groups[protocol], rules)
        rows.append(_held_out_row(contender, protocol, measured, folds[protocol], rules))
    progress(len(runs), len(runs), "measured")
    utilisation = dict(zip(solo["job_type"].astype(str), solo["gpu_util_pct"].astype(float), strict=True))
    good = baselines.utilisation_sum_rule(utilisation, measured.pairs)
    rows.append(
        {
            "model": "utilisation_sum",
            "protocol": "fixed",
            "accuracy": None,
            "severe_errors": None,
            **_pair_metrics(measured.speeds, good, rules.medium_from),
            "fit_s": 0.0,
            "predict_ms": None,
        }
    )
    return rows


def _contender(name: str, contenders: Mapping[str, PackingContender]) -> PackingContender:
    if name not in contenders:
        raise UnknownNameError("packing model", name, contenders)
    return contenders[name]


def _measured(solo: pd.DataFrame, pairs: pd.DataFrame, rules: PackingSettings) -> _Measured:
    unknown = solo[list(FEATURES)].isna().any(axis=1)
    if unknown.any():
        first = solo.loc[unknown].iloc[0]
        lacks = ", ".join(name for name in FEATURES if pd.isna(first[name]))
        raise BadInputError(
            f"{int(unknown.sum())} solo profiles lack a figure: {first['job_type']!r} has no {lacks}.",
            remedy="Measure these configurations again, or leave them out.",
        )
    profiled = set(solo["job_type"])
    profiled_pairs = pairs[pairs["job_type_1"].isin(profiled) & pairs["job_type_2"].isin(profiled)]
    if profiled_pairs.empty:
        raise BadInputError(
            f"None of {len(pairs)} pairs has solo profiles of both of its jobs.",
            remedy="Measure pairs, and the jobs of the pairs alone too, under the same names.",
        )
    labels = label_configurations(solo, profiled_pairs, rules)
    place = {name: row for row, name in enumerate(labels.job_types)}
    sides = np.stack(
        [profiled_pairs[f"job_type_{side}"].map(place).to_numpy(dtype=np.intp) for side in (1, 2)], axis=1
    )
    return _Measured(
        solo.set_index("job_type").loc[list(labels.job_types)].reset_index(),
        profiled_pairs.reset_index(drop=True),
        labels.scores,
        sides.astype(np.intp),
        profiled_pairs[["speed_1", "speed_2"]].to_numpy(dtype=np.float64),
    )


def _held_out_row(
    contender: PackingContender,
    protocol: str,
    measured: _Measured,
    folds: Sequence[_Fold],
    rules: PackingSettings,
) -> Row:
    """One contender, fitted without each fold's group in turn, over the pooled test rows."""
    features = contender.features(measured.table, measured.pairs)
    predicted = np.full(len(measured.scores), -1, dtype=np.intp)
    called, speeds = [], []
    for fold in folds:
        judge = contender.fit(_known(fold, features), rules)
        scores = judge.scores(features[fold.new])
        if scores is not None:
            predicted[fold.new] = scores
        first, second = (features[side] for side in measured.sides[fold.test].T)
        called.append(judge.may_share(first, second))
        speeds.append(measured.speeds[fold.test])
    gives_scores = bool((predicted >= 0).all())
    nothing_new, nothing_to_test = np.full(len(measured.table), False), np.full(len(measured.pairs), False)
    everything = _known(_fold(measured, nothing_new, nothing_to_test, rules), features)
    fit_s, judge = _timed_fit(contender, everything, rules)
    for _ in range(1, _TIMED):
        if fit_s >= _LONG_ENOUGH_S:
            break
        fit_s = min(fit_s, _timed_fit(contender, everything, rules)[0])
    wrong = np.abs(predicted - measured.scores)
    return {
        "model": contender.name,
        "protocol": protocol,
        "accuracy": float((wrong == 0).mean()) if gives_scores else None,
        "severe_errors": float((wrong == 2).mean()) if gives_scores else None,
        **_pair_metrics(np.concatenate(speeds), np.concatenate(called), rules.medium_from),
        "fit_s": fit_s,
        "predict_ms": _predict_ms(judge, features, measured.sides),
    }


def _folds(measured: _Measured, group: NDArray[np.str_], rules: PackingSettings) -> list[_Fold]:
    """A fold for each group of configurations, which it leaves out."""
    folds = []
    for left_out in np.unique(group):
        new = group == left_out
        folds.append(_fold(measured, new, new[measured.sides].any(axis=1), rules))
    return folds


def _fold(
    measured: _Measured, new: NDArray[np.bool_], test: NDArray[np.bool_], rules: PackingSettings
) -> _Fold:
    table, training_pairs = measured.table[~new], measured.pairs[~test]
    labels = label_configurations(table, training_pairs, rules)
    labelled = ~new
    labelled[labelled] = table["job_type"].isin(labels.job_types).to_numpy()
    return _Fold(new, test, table, training_pairs, labelled, labels.scores)


def _known(fold: _Fold, features: Floats) -> LabelledPairs:
    """What may be learned from in a fold, by a contender with these features of all configurations."""
    return LabelledPairs(fold.table, fold.pairs, features[fold.labelled], fold.scores)


def _timed_fit(
    contender: PackingContender, known: LabelledPairs, rules: PackingSettings
) -> tuple[float, Judge]:
    began = process_time()
    judge = contender.fit(known, rules)
    return process_time() - began, judge


def _predict_ms(judge: Judge, features: Floats, sides: NDArray[np.intp]) -> float:
    first, second = (features[side] for side in sides.T)
    spent = []
    for _ in range(_TIMED):
        began = process_time()
        judge.may_share(first, second)
        spent.append(process_time() - began)
    return 1_000.0 * min(spent)


def _pair_metrics(speeds: Floats, called_good: NDArray[np.bool_], at_least: float) -> dict[str, float | None]:
    result: dict[str, float | None] = {}
    for name, speed in (("mean", speeds.mean(axis=1)), ("min", speeds.min(axis=1))):
        good = speed >= at_least
        hits = int((called_good & good).sum())
        result[f"precision_{name}"] = hits / int(called_good.sum()) if called_good.any() else None
        result[f"recall_{name}"] = hits / int(good.sum()) if good.any() else None
    return result
