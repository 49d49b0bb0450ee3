"""Shares, Gini coefficients and cumulative curves: what several groups of figures are made of."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def share_pct(part: float, whole: float) -> float:
    """100 x part / whole; NaN of nothing."""
    return 100.0 * float(part) / float(whole) if whole else float("nan")


def gini(amounts: ArrayLike) -> float:
    """2 sum(i x_i) / (n sum x) - (n + 1) / n, x ascending, i from 1; NaN where there is nothing to share."""
    x = np.sort(np.asarray(amounts, dtype=np.float64))
    n, total = len(x), float(x.sum())
    if n == 0 or total <= 0:
        return float("nan")
    return float(2 * (np.arange(1, n + 1) * x).sum() / (n * total) - (n + 1) / n)


def lorenz_curve(amounts: ArrayLike) -> pd.DataFrame:
    """What the least consuming x % hold together, from (0, 0) to (100, 100); index `population_pct`."""
    x = np.sort(np.asarray(amounts, dtype=np.float64))
    held = np.concatenate([[0.0], np.cumsum(x)])
    return pd.DataFrame(
        {"held_pct": 100 * held / (held[-1] or 1.0)},
        index=pd.Index(np.linspace(0, 100, len(x) + 1), name="population_pct"),
    )


def concentration_curve(amounts: ArrayLike) -> pd.DataFrame:
    """What the most consuming x % hold together; index `population_pct`.

    As Helios' figures 8 and 9(a) draw it: amounts descending against linspace(0, 100, n), so that the first
    stands at 0 %.
    """
    x = np.sort(np.asarray(amounts, dtype=np.float64))[::-1]
    return pd.DataFrame(
        {"held_pct": 100 * np.cumsum(x) / (x.sum() or 1.0)},
        index=pd.Index(np.linspace(0, 100, len(x)), name="population_pct"),
    )


def held_by_top(curve: pd.DataFrame, top_pct: float) -> float:
    """What the top x % hold on a concentration curve, by linear interpolation."""
    return float(np.interp(top_pct, curve.index.to_numpy(), curve["held_pct"].to_numpy()))


def cumulative_pct(values: ArrayLike, steps: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """The share (by weight) of values <= each step, in %, shape (steps,); NaN of no values."""
    ordered = np.asarray(values, dtype=np.float64)
    order = np.argsort(ordered, kind="stable")
    ordered = ordered[order]
    held = np.arange(len(ordered) + 1, dtype=np.float64)
    if weights is not None:
        held = np.concatenate([[0.0], np.cumsum(np.asarray(weights, dtype=np.float64)[order])])
    below = held[np.searchsorted(ordered, np.asarray(steps, dtype=np.float64), side="right")]
    return 100 * below / held[-1] if held[-1] else np.full(len(below), np.nan)
