"""Paired block bootstrap: how sure a difference between two policies that replayed the same jobs is.

Jobs of one day and one virtual cluster wait for each other, so they are not independent observations. Whole
blocks of (day of submission, virtual cluster) are resampled with replacement, and both policies keep the same
blocks in every resample (paired), so that a busy day raises both figures alike and cancels out.

Sources: blocks, Künsch (1989); BCa intervals, Efron (1987) and Efron & Tibshirani, "An Introduction to the
Bootstrap" (1993), chapter 14. BCa needs a jackknife estimate of skewness, which does not work for quantiles
(the same book, section 11.6), so changes of a quantile take percentile intervals (section 13.3).

What it cannot see: a backlog that spills from one day into the next makes neighbouring blocks dependent, and
intervals then come out somewhat too narrow. Fewer than `RELIABLE_BLOCKS` blocks are marked unreliable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import BadInputError, UnknownNameError

Method = Literal["bca", "percentile"]
RELIABLE_BLOCKS = 10
DAY_S = 86_400.0
_NOTHING_S = 1e-6  # below a microsecond the reference is zero, and per cent of it mean nothing
_CHUNK_CELLS = 4_000_000  # bounds the memory of one weighted-quantile step to about 100 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """A point estimate and its bounds, with what is needed to judge them.

    `low` and `high` are None when there are fewer than two blocks: one block cannot show how days differ.
    """

    point: float
    low: float | None
    high: float | None
    confidence_pct: float
    blocks: int
    resamples: int
    method: str
    reliable: bool
    note: str


@dataclass(frozen=True, slots=True)
class PairedChange:
    """Challenger minus reference, in the metric's unit and in per cent of the reference.

    `relative_pct` is None when the reference is zero (no job waited), where per cent mean nothing.
    """

    challenger: float
    reference: float
    difference: Interval
    relative_pct: Interval | None


def block_numbers(
    submit_time_s: ArrayLike, virtual_cluster: Sequence[str] | NDArray[np.object_], *, origin_s: float = 0.0
) -> NDArray[np.int64]:
    """Number the (day of submission, virtual cluster) blocks from 0; shape (jobs,).

    A day is 24 hours counted from `origin_s`.
    """
    days = np.floor((np.asarray(submit_time_s, dtype=np.float64) - origin_s) / DAY_S).astype(np.int64)
    _, day_codes = np.unique(days, return_inverse=True)
    _, vc_codes = np.unique(np.asarray(virtual_cluster, dtype=str), return_inverse=True)
    pairs = day_codes.astype(np.int64) * (int(vc_codes.max(initial=0)) + 1) + vc_codes
    numbers: NDArray[np.int64] = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return numbers


def paired_mean_change(
    challenger: ArrayLike,
    reference: ArrayLike,
    blocks: ArrayLike,
    *,
    confidence_pct: float = 95.0,
    resamples: int = 2_000,
    seed: int = 0,
    method: Method = "bca",
) -> PairedChange:
    """Change of the mean from reference to challenger; arrays of shape (jobs,), one value a job in each.

    Raises BadInputError for empty, unequal or non-finite input and for settings out of range.
    """
    new, old, block = _checked(challenger, reference, blocks, confidence_pct, resamples, method)
    count = int(block.max()) + 1
    size = np.bincount(block, minlength=count).astype(np.float64)
    delta = np.bincount(block, weights=new - old, minlength=count)  # equal policies: exactly zero
    base = np.bincount(block, weights=old, minlength=count)
    point = float(delta.sum() / size.sum())
    relative = 100.0 * float(delta.sum() / base.sum()) if base.sum() > _NOTHING_S else None
    drawn = _resample_counts(count, resamples, seed)
    drawn_delta, drawn_base, drawn_size = drawn @ delta, drawn @ base, drawn @ size
    leave_one_out = count > 1
    jack_size = size.sum() - size
    difference = _interval(
        point,
        drawn_delta / drawn_size,
        (delta.sum() - delta) / jack_size if leave_one_out else None,
        confidence_pct,
        count,
        method,
    )
    relative_interval = None
    if relative is not None:
        # A resample in which no job waited says nothing in per cent: left out of the relative interval only.
        usable = drawn_base > _NOTHING_S
        jack_base = base.sum() - base
        jack = None
        if leave_one_out and bool((jack_base > _NOTHING_S).all()):
            jack = 100.0 * (delta.sum() - delta) / jack_base
        values = 100.0 * drawn_delta[usable] / drawn_base[usable]
        relative_interval = _interval(relative, values, jack, confidence_pct, count, method)
    return PairedChange(float(new.mean()), float(old.mean()), difference, relative_interval)


def paired_quantile_change(
    challenger: ArrayLike,
    reference: ArrayLike,
    blocks: ArrayLike,
    quantile: float,
    *,
    confidence_pct: float = 95.0,
    resamples: int = 2_000,
    seed: int = 0,
) -> PairedChange:
    """Change of a quantile (0 < quantile < 1, inverse of the empirical distribution function)."""
    if not 0 < quantile < 1:
        raise BadInputError(f"A quantile of {quantile!r} is not between 0 and 1.", remedy="Use 0.999.")
    new, old, block = _checked(challenger, reference, blocks, confidence_pct, resamples, "percentile")
    count = int(block.max()) + 1
    whole = np.ones((1, count), dtype=np.float64)
    new_point = float(_weighted_quantile(new, block, whole, quantile)[0])
    old_point = float(_weighted_quantile(old, block, whole, quantile)[0])
    drawn = _resample_counts(count, resamples, seed)
    drawn_new = _weighted_quantile(new, block, drawn, quantile)
    drawn_old = _weighted_quantile(old, block, drawn, quantile)
    difference = _interval(
        new_point - old_point, drawn_new - drawn_old, None, confidence_pct, count, "percentile"
    )
    relative_interval = None
    if old_point > _NOTHING_S:
        usable = drawn_old > _NOTHING_S
        values = 100.0 * (drawn_new[usable] - drawn_old[usable]) / drawn_old[usable]
        point = 100.0 * (new_point - old_point) / old_point
        relative_interval = _interval(point, values, None, confidence_pct, count, "percentile")
    return PairedChange(new_point, old_point, difference, relative_interval)


def _checked(
    challenger: ArrayLike,
    reference: ArrayLike,
    blocks: ArrayLike,
    confidence_pct: float,
    resamples: int,
    method: str,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    new = np.asarray(challenger, dtype=np.float64)
    old = np.asarray(reference, dtype=np.float64)
    block = np.asarray(blocks)
    if new.ndim != 1 or new.shape != old.shape or new.shape != block.shape:
        raise BadInputError(
            f"A paired bootstrap needs arrays of one length, got {new.shape}, {old.shape}, {block.shape}.",
            remedy="Give one value per job for the challenger, the reference and the block.",
        )
    if new.size == 0:
        raise BadInputError("No job to compare.", remedy="Choose a window in which jobs were submitted.")
    if not (np.isfinite(new).all() and np.isfinite(old).all()):
        bad = int((~np.isfinite(new)).sum() + (~np.isfinite(old)).sum())
        raise BadInputError(f"{bad} values to compare are not finite.", remedy="Leave unfinished jobs out.")
    if not 50 <= confidence_pct < 100:
        raise BadInputError(f"confidence_pct is {confidence_pct!r}.", remedy="Use 50 to below 100.")
    if resamples < 100:
        raise BadInputError(f"resamples is {resamples!r}.", remedy="Use at least 100, such as 2000.")
    if method not in get_args(Method):
        raise UnknownNameError("interval method", method, get_args(Method))
    # Dense numbers, whatever the caller's were: a gap would be an empty block.
    return new, old, np.unique(block, return_inverse=True)[1].astype(np.int64)


def _resample_counts(blocks: int, resamples: int, seed: int) -> NDArray[np.float64]:
    """How often each block is drawn, shape (resamples, blocks)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(blocks, np.full(blocks, 1.0 / blocks), size=resamples).astype(np.float64)


def _interval(
    point: float,
    drawn: NDArray[np.float64],
    jackknife: NDArray[np.float64] | None,
    confidence_pct: float,
    blocks: int,
    method: Method,
) -> Interval:
    resamples = int(drawn.size)
    if blocks < 2 or resamples == 0:
        note = f"no interval: {blocks} block of one day and one virtual cluster cannot show how days differ"
        return Interval(point, None, None, confidence_pct, blocks, resamples, "none", False, note)
    tail = (1.0 - confidence_pct / 100.0) / 2.0
    levels = (tail, 1.0 - tail)
    used: str = "percentile"
    if method == "bca" and jackknife is not None and float(np.ptp(drawn)) > 0.0:
        levels = _bca_levels(point, drawn, jackknife, tail)
        used = "bca"
    low, high = (float(v) for v in np.quantile(drawn, levels))
    reliable = blocks >= RELIABLE_BLOCKS
    note = (
        ""
        if reliable
        else f"unreliable: {blocks} blocks of one day and one virtual cluster, fewer than {RELIABLE_BLOCKS}"
    )
    return Interval(point, low, high, confidence_pct, blocks, resamples, used, reliable, note)


def _bca_levels(
    point: float, drawn: NDArray[np.float64], jackknife: NDArray[np.float64], tail: float
) -> tuple[float, float]:
    """Bias-corrected and accelerated levels (Efron & Tibshirani 1993, equations 14.9 to 14.15)."""
    normal = NormalDist()
    below = float((drawn < point).mean() + 0.5 * (drawn == point).mean())
    edge = 0.5 / drawn.size
    bias = normal.inv_cdf(min(max(below, edge), 1.0 - edge))
    centred = jackknife.mean() - jackknife
    scale3 = 6.0 * float((centred**2).sum()) ** 1.5
    acceleration = float((centred**3).sum()) / scale3 if scale3 > 0 else 0.0

    def level(share: float) -> float:
        z = bias + normal.inv_cdf(share)
        scale = 1.0 - acceleration * z
        # Beyond the pole the formula would turn round; the outermost resample is the honest bound there.
        return normal.cdf(bias + z / scale) if scale > 0 else (0.0 if z < 0 else 1.0)

    return level(tail), level(1.0 - tail)


def _weighted_quantile(
    values: NDArray[np.float64], block: NDArray[np.int64], weights: NDArray[np.float64], quantile: float
) -> NDArray[np.float64]:
    """Quantile of every resample, shape (resamples,); `weights` has shape (resamples, blocks).

    Sorted once; per resample, walk the weights from the nearer end until the share beyond is used up. Only
    that tail is touched (a few times 0.1 % of the jobs for P99.9), and more of it when it was too short.
    """
    from_top = quantile >= 0.5
    order = np.argsort(-values if from_top else values, kind="stable")
    ordered, ordered_block = values[order], block[order]
    total = weights @ np.bincount(block, minlength=weights.shape[1]).astype(np.float64)
    # From the top: the first value at which the weight above and at it exceeds (1 - q) of the total.
    share = (1.0 - quantile) if from_top else quantile
    needed = share * total * (1.0 + (1e-12 if from_top else -1e-12))
    out = np.empty(weights.shape[0])
    open_rows = np.arange(weights.shape[0])
    depth = min(values.size, max(64, int(share * values.size * 3)))
    while open_rows.size:
        step = max(1, _CHUNK_CELLS // depth)
        still_open = []
        for start in range(0, open_rows.size, step):
            rows = open_rows[start : start + step]
            walked = np.cumsum(weights[rows][:, ordered_block[:depth]], axis=1)
            goal = needed[rows][:, None]
            reached = walked > goal if from_top else walked >= goal
            is_reached = reached.any(axis=1)
            out[rows[is_reached]] = ordered[np.argmax(reached[is_reached], axis=1)]
            if depth == values.size:
                # Rounding can leave the last job a hair short of the goal: it is the quantile then.
                out[rows[~is_reached]] = ordered[-1]
            else:
                still_open.append(rows[~is_reached])
        open_rows = np.concatenate(still_open) if still_open else np.empty(0, dtype=np.int64)
        depth = min(values.size, depth * 4)
    return out
