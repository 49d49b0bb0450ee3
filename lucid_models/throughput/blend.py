"""How far a throughput forecast leans on two naive ones: as far as they were the better ones lately.

A few days, or the log of a cluster with habits that change by the week, hold little of tomorrow for shape
functions, and a series that moves slowly is forecast best by its newest value. What the learned forecast, the
rolling median and the newest value weigh is chosen by the newest part of the history, forecast by a model
that was fitted on what lies before it: separately for times when little comes, where a median is hard to
beat. The fewer bins spoke, the more the median stands.

What training chose holds until habits change: a silence that begins, a holiday, a new group of users. So each
part's weight falls with how much more than the best of them it was off in total over the last day, by a power
of e (Hedge: Freund and Schapire, J. Computer and System Sciences 55, 1997, over a window, not all time).
Errors are measured in the mean error of all parts, so that no unit and no size of a cluster matters. A part
that training gave no weight gets none.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.model_format import Fields
from lucid_models.series.windows import Floats

PARTS = ("learned", "median", "newest")
# Weights of the parts that are tried: eighths.
_STEPS = 8
TRIED = np.array([(a, _STEPS - a - c, c) for a in range(_STEPS + 1) for c in range(_STEPS + 1 - a)]) / _STEPS
MEDIAN_ALONE = (0.0, 1.0, 0.0)
# The median's prior weighs as much in the choice as so many days of held-out bins.
TRUSTED_DAYS = 0.25
HELD_OUT = 0.25
HELD_OUT_DAYS = 28  # at most: what is older says less of tomorrow
SILENT_BELOW = 0.5  # a median that rounds to nothing
FOLLOWED_DAYS = 1
# By how much the logarithm of a weight falls for each bin in which the part is off by a mean error more.
RATE = 0.05
# Running sums of numbers with so many binary digits after the point are exact: a scorer that holds the last
# days alone and one that holds years subtract to the same bits.
_ERROR_STEPS = 2.0**20


@dataclass(frozen=True)
class PartWeights:
    """What each of PARTS weighs in a forecast (`weights`, which sum to 1), and how that was chosen: `errors`,
    the mean absolute errors of the parts alone, on `bins` held-out bins.
    """

    weights: tuple[float, float, float]
    bins: int = 0
    errors: tuple[float, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "weights": dict(zip(PARTS, self.weights, strict=True)),
            "bins": self.bins,
            "mae": dict(zip(PARTS, self.errors, strict=False)),
        }

    @classmethod
    def from_data(cls, fields: Fields) -> "PartWeights":
        """Read what `to_data` wrote; raises CorruptModelError."""
        said = fields.child("weights")
        learned, median, newest = (said.number(part, 0.0, 1.0) for part in PARTS)
        if abs(learned + median + newest - 1.0) > 1e-9:
            raise fields.fail("weights", "do not sum to 1")
        errors = fields.child("mae")
        known = tuple(errors.number(part, 0.0) for part in PARTS if errors.has(part))
        return cls((learned, median, newest), fields.integer("bins", 0, 1_000_000_000), known)


@dataclass(frozen=True)
class Blend:
    """The weights while something comes (`busy`) and while the rolling median is nothing (`silent`).

    From `since_s` (Unix time, s: the end of training) on they follow the errors of the last `followed_bins`
    bins (`followed_weights`; 0: they stay).
    """

    busy: PartWeights = field(default_factory=lambda: PartWeights((1.0, 0.0, 0.0)))
    silent: PartWeights = field(default_factory=lambda: PartWeights((1.0, 0.0, 0.0)))
    followed_bins: int = 0
    since_s: int = 0

    def weights(self, medians: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights of PARTS for forecasts beside these rolling medians (NaN: not known, what is learned
        stands alone), shape (rows, 3).
        """
        result = np.where((medians < SILENT_BELOW)[:, None], self.silent.weights, self.busy.weights)
        result[np.isnan(medians)] = (1.0, 0.0, 0.0)
        return result

    def sentence(self) -> str:
        """The weights in words, for a card."""
        busy, silent = (weights_in_words(chosen.weights) for chosen in (self.busy, self.silent))
        chosen = busy if busy == silent else f"{busy}; while that median is nothing {silent}"
        return f"{chosen}; they follow the errors of the last day" if self.followed_bins else chosen

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "busy": self.busy.to_data(),
            "silent": self.silent.to_data(),
            "followed_bins": self.followed_bins,
            "since_s": self.since_s,
        }

    @classmethod
    def from_data(cls, fields: Fields) -> "Blend":
        """Read what `to_data` wrote; raises CorruptModelError."""
        busy, silent = (PartWeights.from_data(fields.child(name)) for name in ("busy", "silent"))
        followed_bins = fields.integer("followed_bins", 0, 100_000)
        return cls(busy, silent, followed_bins, fields.integer("since_s", -(2**62), 2**62))

    @classmethod
    def of_share(cls, learned: float) -> "Blend":
        """A blend of what is learned and the rolling median, at all times."""
        weights = PartWeights((learned, 1.0 - learned, 0.0))
        return cls(weights, weights)


def held_out_bins(bins: int, day_bins: int) -> int:
    """How many of the newest bins of a history are held out to choose the blend."""
    return min(int(bins * HELD_OUT), HELD_OUT_DAYS * day_bins)


def best_blend(truth: NDArray[np.float64], parts: NDArray[np.float64], day_bins: int) -> Blend:
    """The blend that held-out bins choose.

    `truth` of shape (bins,), `parts` of shape (bins, 3): what PARTS said of them; NaN: unknown.
    """
    is_silent = parts[:, PARTS.index("median")] < SILENT_BELOW
    busy, silent = (_best_weights(truth, parts, rows, day_bins) for rows in (~is_silent, is_silent))
    return Blend(busy, silent)


def _best_weights(
    truth: NDArray[np.float64], parts: NDArray[np.float64], rows: NDArray[np.bool_], day_bins: int
) -> PartWeights:
    """The weights with the least mean absolute error on these rows, those nearest to the median among equals,
    drawn to the median as far as the bins are few.
    """
    known = np.flatnonzero(rows & ~np.isnan(truth) & ~np.isnan(parts).any(axis=1))
    trusted_bins = TRUSTED_DAYS * day_bins
    if known.size < trusted_bins:
        return PartWeights(MEDIAN_ALONE, known.size)
    said, came = parts[known], truth[known]
    # Absolute error is no quadratic of the weights, so there is no formula for them: 45 are tried. Steps
    # finer than eighths would fit the noise of the held-out days.
    errors = np.array([np.abs(said @ tried - came).mean() for tried in TRIED])
    # Sums in another order differ in the last digit: equals within 1e-12 keep the choice the same anywhere.
    equal = np.flatnonzero(errors <= errors.min() * (1.0 + 1e-12))
    best = TRIED[equal[np.argmax(TRIED[equal, PARTS.index("median")])]]
    trust = known.size / (known.size + trusted_bins)
    learned, newest = (round(float(trust * best[PARTS.index(part)]), 2) for part in ("learned", "newest"))
    alone = np.abs(said - came[:, None]).mean(axis=0)
    return PartWeights(
        (learned, round(1.0 - learned - newest, 2), newest), known.size, tuple(map(float, alone))
    )


def weights_in_words(weights: tuple[float, ...]) -> str:
    """What a forecast is made of, in words."""
    names = ("what was learned", "the rolling median", "the newest value")
    shares = [f"{weight:.0%} {name}" for weight, name in zip(weights, names, strict=True) if weight >= 0.005]
    return " and ".join(filter(None, (", ".join(shares[:-1]), shares[-1])))


def followed_weights(weights: Floats, errors: Floats, newest: NDArray[np.intp], window: int) -> Floats:
    """The weights of the parts of each row's forecast, shape (rows, parts).

    `weights`: as training chose them, of that shape; `errors`, shape (bins, parts): how far each part was off
    in each bin (NaN: not known); `newest`: the newest bin that each row knows (negative: none), of which and
    the bins before it `window` count. A row that knows no error keeps its weights.
    """
    is_known = np.logical_not(np.isnan(errors).any(axis=1))
    rounded = np.rint(np.where(is_known[:, None], errors, 0.0) * _ERROR_STEPS) / _ERROR_STEPS
    totals = np.concatenate([np.zeros((1, errors.shape[1])), np.cumsum(rounded, axis=0)])
    bins = np.concatenate([[0], np.cumsum(is_known)])
    end = np.maximum(newest + 1, 0)
    start = np.maximum(end - window, 0)
    lost, counted = totals[end] - totals[start], bins[end] - bins[start]
    mean = lost.mean(axis=1, keepdims=True)
    # Beside the best of those that weigh at all: on short bins the others' powers would all round to nothing.
    best = np.where(weights > 0.0, lost, np.inf).min(axis=1, keepdims=True)
    worse = np.maximum(lost - best, 0.0) / np.where(mean > 0.0, mean, 1.0)
    followed = weights * np.exp(-RATE * counted[:, None] * worse)
    followed /= followed.sum(axis=1, keepdims=True)
    return np.where(counted[:, None] > 0, followed, weights)
