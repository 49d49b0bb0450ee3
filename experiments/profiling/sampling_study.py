"""Whether it pays to choose the pairs that are measured: learning curves on pairs that all were measured.

A table of measured pairs is replayed: an order chooses pairs in batches from those that may be learned from,
sees the speeds of what it chose and of nothing else, and after some numbers of pairs the pairwise packing
model is fitted to them and judged on pairs that were held out. `new_models`: the pairs in which a model of
the fold's group takes part, `new_pairs`: pairs drawn at random.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.progress import Progress, silent
from lucid_models.evaluation.packing_contenders import GSS
from lucid_models.packing.model import (
    PackingAnalyzeModel,
    label_configurations,
    mean_partner_speeds,
    score_of_speed,
)
from lucid_models.packing.pairwise import LOWEST_SPEED, pair_features
from lucid_models.packing.pairwise_training import (
    PairTable,
    fit_mean_speed,
    learned_threshold,
    model_bags,
    read_pair_table,
)
from lucid_models.packing.tree import PackingSettings
from pipeline.profiling.uncertainty import Uncertainty
from profiler_jobs.plan import BATCH_PAIRS, PairRanking, Ranked, space_filling
from profiler_jobs.tasks import MeasurementTask
from profiler_jobs.workloads import find_job_type

Row = dict[str, Any]
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

SIZES = (20, 40, 80, 160, 240)
LABEL_SIZES = (40, 80, 160, 320)
RANDOM, EVERYTHING = "random", "everything"
RANDOM_SEEDS = 3
FOLDS = 4
# How often the models, or the pairs, are divided into folds.
PARTITIONS: Mapping[str, int] = {"new_models": 2}
FIGURES = ("mae", "wrong", "precision", "recall")
_PARTITION_SEED = 100


@dataclass(frozen=True)
class SampledPairs:
    """All pairs that were measured, as arrays and as tasks, in one order."""

    solo: pd.DataFrame
    pairs: pd.DataFrame
    tasks: tuple[MeasurementTask, ...]
    table: PairTable

    @classmethod
    def of(cls, solo: pd.DataFrame, pairs: pd.DataFrame) -> "SampledPairs":
        """Take the pairs whose jobs both have a solo profile. Raises UnknownNameError for other workloads."""
        profiled = set(solo["job_type"])
        known = pairs[pairs["job_type_1"].isin(profiled) & pairs["job_type_2"].isin(profiled)]
        known = known.reset_index(drop=True)
        tasks = tuple(
            MeasurementTask((find_job_type(str(one)), find_job_type(str(other))))
            for one, other in zip(known["job_type_1"], known["job_type_2"], strict=True)
        )
        return cls(solo, known, tasks, read_pair_table(solo, known))

    @property
    def features(self) -> Floats:
        """Return the model's features, a row a pair."""
        return pair_features(self.table.first, self.table.second)

    def part(self, rows: Rows) -> PairTable:
        """Return the measurements of some pairs."""
        table = self.table
        return PairTable(table.first[rows], table.second[rows], table.models[rows], table.speeds[rows])


def random_order(seed: int) -> PairRanking:
    """Return an order that knows nothing."""
    rng = np.random.default_rng(seed)

    def ranked(
        _solo: pd.DataFrame,
        _measured: pd.DataFrame,
        _settled: Sequence[MeasurementTask],
        candidates: Sequence[MeasurementTask],
    ) -> list[Ranked]:
        return [Ranked(candidates[row], "drawn") for row in rng.permutation(len(candidates))]

    return ranked


# Each makes the order of one replay.
ORDERS: Mapping[str, Callable[[int], PairRanking]] = {
    RANDOM: random_order,
    "space_filling": lambda _: space_filling,
    "uncertainty": lambda _: Uncertainty(),
    "uncertainty_diverse": lambda _: Uncertainty(diverse=True),
}


def compare_orders(
    solo: pd.DataFrame,
    pairs: pd.DataFrame,
    *,
    orders: Sequence[str] = tuple(ORDERS),
    sizes: Sequence[int] = SIZES,
    partitions: Mapping[str, int] = PARTITIONS,
    seeds: int = RANDOM_SEEDS,
    progress: Progress = silent,
) -> list[Row]:
    """Rows {protocol, order, pairs, mae, wrong, precision, recall, wrong_low, wrong_high}, means over folds.

    `mae` is the mean absolute error of the predicted mean speed; `wrong` the share of held-out pairs that lie
    on the other side of 0.85 than predicted; `precision` and `recall` are those of the product's own rule,
    whose threshold is chosen on the same pairs that the model was fitted to. `wrong_low` and `wrong_high` are
    the lowest and highest mean over the seeds of `random`. The order `everything` measures all pairs that may
    be learned from (`pairs` None).
    """
    measured = SampledPairs.of(solo, pairs)
    replays = [
        (protocol, fold, order, seed)
        for protocol, many in partitions.items()
        for fold in range(FOLDS * many)
        for order in (*orders, EVERYTHING)
        for seed in range(seeds if order == RANDOM else 1)
    ]
    folds = {protocol: _folds(measured, protocol, many) for protocol, many in partitions.items()}
    found: list[Row] = []
    for done, (protocol, fold, order, seed) in enumerate(replays):
        progress(done, len(replays), "pairs chosen again")
        pool, test = folds[protocol][fold]
        place = {"protocol": protocol, "order": order, "seed": seed}
        if order == EVERYTHING:
            found.append({**place, "pairs": 0, **judge(measured, pool, test)})
            continue
        chosen = replay(measured, pool, ORDERS[order](seed * FOLDS * 8 + fold), max(sizes))
        found += [
            {**place, "pairs": size, **judge(measured, chosen[:size], test)}
            for size in sizes
            if size <= len(pool)
        ]
    progress(len(replays), len(replays), "pairs chosen again")
    return _means(pd.DataFrame(found))


def replay(
    measured: SampledPairs, pool: Rows, order: PairRanking, most: int, batch: int = BATCH_PAIRS
) -> Rows:
    """Return the rows that an order measures, in its order: it sees what it measured and nothing else."""
    known: list[int] = []
    row_of = {measured.tasks[row]: int(row) for row in pool}
    while len(known) < min(most, len(pool)):
        taken = set(known)
        rest = [int(row) for row in pool if row not in taken]
        ranked = order(
            measured.solo,
            measured.pairs.iloc[known],
            [measured.tasks[row] for row in known],
            [measured.tasks[row] for row in rest],
        )
        known += [row_of[each.task] for each in ranked[:batch]]
    return np.array(known[:most], dtype=np.intp)


def judge(measured: SampledPairs, known: Rows, test: Rows) -> Row:
    """Fit the model to the known pairs, and judge it on the others."""
    settings = PackingSettings(kind="pairwise")
    learned = measured.part(known)
    scorer, bags = fit_mean_speed(learned, settings)
    features = pair_features(learned.first, learned.second)
    held_out = np.stack([bag.score(features) for bag in bags], axis=1)
    rows, groups = np.nonzero(model_bags(learned.models) == -1)
    good_known = learned.speeds.mean(axis=1)[rows] >= settings.medium_from
    threshold = learned_threshold(held_out[rows, groups], good_known, groups, settings)
    predicted = np.clip(scorer.score(measured.features[test]), LOWEST_SPEED, 1.0)
    speeds = measured.table.speeds[test]
    good, called = speeds.mean(axis=1) >= settings.medium_from, predicted >= threshold
    return {
        "mae": float(np.abs(predicted - np.minimum(speeds, 1.0).mean(axis=1)).mean()),
        "wrong": float(((predicted >= settings.medium_from) != good).mean()),
        "precision": float(good[called].mean()) if called.any() else float("nan"),
        "recall": float(called[good].mean()),
    }


def compare_labels(
    solo: pd.DataFrame, pairs: pd.DataFrame, *, sizes: Sequence[int] = LABEL_SIZES, seeds: int = RANDOM_SEEDS
) -> list[Row]:
    """Rows {order, pairs, agree_measured, agree, severe, precision, recall} of the tree from few pairs.

    `agree` is the share of configurations that get the label which all pairs give, with the pairs completed
    by the pairwise model as training does, and `agree_measured` without that. The tree that is fitted to the
    labels is judged on all configurations and pairs, learned from or not: `severe` errors, and precision and
    recall of "scores sum to at most 2" at mean speed 0.85. `pairs` None: all of them.
    """
    measured, rules = SampledPairs.of(solo, pairs), PackingSettings()
    pool = np.arange(len(measured.tasks))
    choices: list[tuple[str, int | None, Rows]] = [(EVERYTHING, None, pool)]
    for order, many in ((RANDOM, seeds), ("space_filling", 1)):
        replays = [replay(measured, pool, ORDERS[order](seed), max(sizes)) for seed in range(many)]
        choices += [(order, size, chosen[:size]) for size in sizes for chosen in replays]
    whole = _labels(measured.pairs)
    found = []
    for order, size, chosen in choices:
        few = measured.pairs.iloc[chosen]
        labels = label_configurations(measured.solo, few, rules)
        tree = PackingAnalyzeModel(rules).fit(measured.solo, few)
        scores = dict(zip(measured.solo["job_type"], tree.predict_table(measured.solo), strict=True))
        sums = [sum(scores[job_type.name] for job_type in pair.job_types) for pair in measured.tasks]
        called = np.array(sums) <= GSS
        good = measured.table.speeds.mean(axis=1) >= rules.medium_from
        found.append(
            {
                "order": order,
                "pairs": size or 0,
                "agree_measured": _agreement(whole, _labels(few)),
                "agree": _agreement(whole, dict(zip(labels.job_types, labels.scores, strict=True))),
                "severe": float(np.mean([abs(int(scores[each]) - whole[each]) == 2 for each in whole])),
                "precision": float(good[called].mean()) if called.any() else float("nan"),
                "recall": float(called[good].mean()),
            }
        )
    means = pd.DataFrame(found).groupby(["order", "pairs"], sort=False).mean().reset_index()
    return [
        {**{str(name): value for name, value in row.items()}, "pairs": int(row["pairs"]) or None}
        for row in means.to_dict("records")
    ]


def _labels(pairs: pd.DataFrame) -> dict[str, int]:
    """The label of each configuration by its measured partners alone."""
    speeds = mean_partner_speeds(pairs)
    scores = score_of_speed(list(speeds.values()), PackingSettings())
    return {name: int(score) for name, score in zip(speeds, scores, strict=True)}


def _agreement(whole: Mapping[str, int], few: Mapping[str, int]) -> float:
    return float(np.mean([whole[name] == score for name, score in few.items()]))


def _folds(measured: SampledPairs, protocol: str, partitions: int) -> list[tuple[Rows, Rows]]:
    """What may be learned from, and what is held out, for each fold of each partition."""
    folds = []
    for partition in range(partitions):
        rng = np.random.default_rng(_PARTITION_SEED + partition)
        if protocol == "new_models":
            models = rng.permutation(np.unique(measured.table.models))
            tests = [np.isin(measured.table.models, models[fold::FOLDS]).any(axis=1) for fold in range(FOLDS)]
        else:
            fold_of = rng.permutation(len(measured.tasks)) % FOLDS
            tests = [fold_of == fold for fold in range(FOLDS)]
        folds += [(np.flatnonzero(~test), np.flatnonzero(test)) for test in tests]
    return folds


def _means(found: pd.DataFrame) -> list[Row]:
    """Means over folds and seeds, with the range over seeds."""
    rows: list[Row] = []
    for _, group in found.groupby(["protocol", "order", "pairs"], sort=False):
        first, by_seed = group.iloc[0], group.groupby("seed")["wrong"].mean()
        rows.append(
            {
                "protocol": str(first["protocol"]),
                "order": str(first["order"]),
                "pairs": int(first["pairs"]) or None,
                **{figure: float(group[figure].mean()) for figure in FIGURES},
                "wrong_low": float(by_seed.min()),
                "wrong_high": float(by_seed.max()),
            }
        )
    return rows
