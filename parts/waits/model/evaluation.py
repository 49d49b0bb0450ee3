"""Measures forecasts of waits: the last moments of a queue, each forecast from what was known before it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.progress import Progress, silent
from lucid_models.evaluation.measures import Floats, Row
from parts.waits.model.calibration import LEVELS
from parts.waits.model.fitting import Learner, TooFewWaitsError, WaitSettings, additive_learner
from parts.waits.model.survival import ErrorDistribution
from parts.waits.model.wait_table import WaitTable
from parts.waits.model.walk_forward import calibrated, first_calibrating, walk_forward

OURS = "ebm"
MEDIAN = "partition_median"
LARGEST_PARTITIONS = 10

Makers = Mapping[str, Learner]


@dataclass(frozen=True)
class WaitEvaluation:
    """`rows`: one a model; `groups`: of ours, one a group of rows (all, GPU jobs, the largest partitions);
    `said`: of each model, the quantiles of each row of the table, shape (rows, levels), as logarithms;
    `means`: of each that learns, the forecasts that these were made of, shape (rows,), NaN before the
    calibrating moments.
    """

    rows: list[Row]
    groups: list[Row]
    said: Mapping[str, Floats]
    means: Mapping[str, Floats]


def evaluate_waits(
    table: WaitTable,
    train_moments: int,
    settings: WaitSettings | None = None,
    rivals: Makers | None = None,
    names: Callable[[int], str] = str,
    progress: Progress = silent,
) -> WaitEvaluation:
    """A row a model: `model`, `mse_log10`, `within_x2`, `within_x3`, `coverage_p50`, `coverage_p90`, `rows`.

    The moments after the first `train_moments` are forecast one after the other, by models and offsets of
    what was known at each; `within_x2`: share of waits (plus a second) within twice or half of P50.
    Waits that the log does not see end are not judged. `names` says what a partition is called. Raises
    BadInputError where either part is too short.
    """
    chosen = settings or WaitSettings()
    truth, is_over = table.waits(np.inf)
    judged = is_over & (table.moment >= train_moments)
    if not 1 <= train_moments < table.moments_s.size or not judged.any():
        raise TooFewWaitsError(
            f"{table.moments_s.size} moments with {train_moments} to train on leave nothing to test.",
            remedy="Give more snapshots, or train on fewer: --train-snapshots N.",
        )
    first = first_calibrating(train_moments)
    said: dict[str, Floats] = {}
    means: dict[str, Floats] = {}
    learners = {OURS: additive_learner(table.features.names, chosen.boosting), **(rivals or {})}
    for name, learner in learners.items():
        progress(len(said), len(learners), name)
        means[name] = walk_forward(table, learner, chosen, first)
        said[name] = calibrated(table, means[name], train_moments)
    said[MEDIAN] = partition_medians(table, train_moments)
    rows = [_row(name, one, truth, judged) for name, one in said.items()]
    return WaitEvaluation(rows, _groups(table, said[OURS], truth, judged, names), said, means)


def partition_medians(table: WaitTable, first: int) -> Floats:
    """The quantiles of the partition's waits so far; of a partition without one those of all."""
    quantiles = np.full((table.moment.size, len(LEVELS)), np.nan)
    for moment in range(first, table.moments_s.size):
        waits, is_over = table.waits(float(table.moments_s[moment]))
        past = table.moment < moment
        for code in np.unique(table.partition[table.moment == moment]):
            own = past & (table.partition == code)
            rows = own if (own & is_over).any() else past
            spread = ErrorDistribution.of(waits[rows], is_over[rows])
            here = (table.moment == moment) & (table.partition == code)
            quantiles[here] = [spread.quantile(level) for level in LEVELS]
    return quantiles


def _row(name: str, said: Floats, truth: Floats, judged: NDArray[np.bool_]) -> Row:
    error = np.abs(said[:, 0] - truth)[judged]
    return {
        "model": name,
        "mse_log10": float(np.square(error).mean()),
        **{f"within_x{times}": float((error <= np.log10(times)).mean()) for times in (2, 3)},
        **_coverage(said, truth, judged),
        "rows": int(judged.sum()),
    }


def _groups(
    table: WaitTable,
    said: Floats,
    truth: Floats,
    judged: NDArray[np.bool_],
    names: Callable[[int], str],
) -> list[Row]:
    """All rows, GPU jobs, and the partitions with most rows."""
    groups = {"all": judged, "gpu_jobs": judged & (table.gpus > 0)}
    counts = np.bincount(table.partition[judged])
    for code in np.argsort(-counts, kind="stable")[:LARGEST_PARTITIONS].tolist():
        if counts[code]:
            groups[f"partition {names(code)}"] = judged & (table.partition == code)
    return [{"group": group, **_row(OURS, said, truth, rows)} for group, rows in groups.items() if rows.any()]


def _coverage(said: Floats, truth: Floats, judged: NDArray[np.bool_]) -> Row:
    return {
        f"coverage_p{100 * level:g}": float((truth <= said[:, place])[judged].mean())
        for place, level in enumerate(LEVELS)
    }
