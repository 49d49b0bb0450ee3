"""What an evaluation measures: errors, order, CPU time, and whether a difference is more than chance.

All of it works on arrays; the protocols are in throughput.py, duration.py and packing.py beside it.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Row = dict[str, Any]
T = TypeVar("T")

DRAWS = 2_000
_PREDICTIONS_TIMED = 3


def cpu_timed(call: Callable[[], T]) -> tuple[T, float]:
    """The result of a call and the CPU seconds that it took."""
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


def predict_timed(predict: Callable[[], Floats]) -> tuple[Floats, float]:
    """Predictions, and the CPU milliseconds that they take at best."""
    took = [cpu_timed(predict) for _ in range(_PREDICTIONS_TIMED)]
    return took[0][0], 1e3 * min(seconds for _, seconds in took)


def log10_errors(truth_s: Floats, predicted_s: Floats) -> Floats:
    """Absolute errors of log10 run time, shape (jobs,); both sides count as at least a second."""
    error: Floats = np.abs(np.log10(np.maximum(predicted_s, 1.0)) - np.log10(np.maximum(truth_s, 1.0)))
    return error


def duration_metrics(truth_s: Floats, predicted_s: Floats, size: Floats) -> dict[str, float]:
    """Kendall's tau-b and Spearman's rank correlation of GPU time, mean absolute error of log10 run time.

    `size`: what a run time is multiplied by, such as GPUs. An order of equals agrees with nothing: 0.
    """
    from scipy.stats import kendalltau, spearmanr

    truth, predicted = np.maximum(truth_s, 1.0) * size, np.maximum(predicted_s, 1.0) * size
    ordered = np.ptp(truth) > 0 and np.ptp(predicted) > 0
    return {
        "kendall_tau": float(kendalltau(predicted, truth)[0]) if ordered else 0.0,
        "spearman": float(spearmanr(predicted, truth)[0]) if ordered else 0.0,
        "mae_log10": float(log10_errors(truth_s, predicted_s).mean()),
    }


def r_squared(truth: Floats, predicted: Floats) -> float:
    """Coefficient of determination; 0 for a constant truth."""
    total = float(((truth - truth.mean()) ** 2).sum())
    return 1.0 - float(((truth - predicted) ** 2).sum()) / total if total > 0 else 0.0


def compared(errors: Floats, of_model: Floats, blocks: NDArray[np.intp], *, seed: int = 0) -> Row:
    """How much a rival's errors exceed the model's: their mean difference and its 95 % interval.

    Keys worse_by, worse_by_low, worse_by_high: above 0 the model is better. The interval is a bootstrap of
    whole blocks (days), because errors within a day go together; rows that either side lacks (NaN) take no
    part, and one block has no interval.
    """
    both = ~np.isnan(errors) & ~np.isnan(of_model)
    if not both.any():
        return {"worse_by": None, "worse_by_low": None, "worse_by_high": None}
    difference = (errors - of_model)[both]
    position = np.unique(blocks[both], return_inverse=True)[1]
    total = np.bincount(position, weights=difference)
    count = np.bincount(position).astype(np.float64)
    mean = float(difference.mean())
    if count.size < 2:
        return {"worse_by": mean, "worse_by_low": None, "worse_by_high": None}
    drawn = np.random.default_rng(seed).multinomial(count.size, np.full(count.size, 1 / count.size), DRAWS)
    low, high = np.quantile((drawn @ total) / (drawn @ count), (0.025, 0.975))
    return {"worse_by": mean, "worse_by_low": float(low), "worse_by_high": float(high)}
