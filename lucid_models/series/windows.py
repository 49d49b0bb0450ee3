"""Windows over a series of bins and the calendar of bins, which all forecasts are made of, with NumPy alone.

Every value of a bin is made of that bin and earlier ones. Unknown bins are NaN.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.model_format import Fields

Floats = NDArray[np.float64]

HOUR_S = 3_600
DAY_S = 86_400
WEEK_S = 7 * DAY_S
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# 1970-01-01 was a Thursday; days of the week count from Monday = 0.
_EPOCH_DAY_OF_WEEK = 3


def check_divides_a_day(bin_s: int, example: str = "600 s") -> None:
    """Raise BadInputError for a length of bins (s) that a day is no multiple of."""
    if not 1 <= bin_s <= DAY_S or DAY_S % bin_s:
        raise BadInputError(
            f"A bin of {bin_s} s does not divide a day.", remedy=f"Choose for example {example}."
        )


def read_bin_s(fields: Fields) -> int:
    """Read the field `bin_s` of saved features; raises CorruptModelError."""
    bin_s = fields.integer("bin_s", 1, DAY_S)
    if DAY_S % bin_s:
        raise fields.fail("bin_s", f"is {bin_s}, which does not divide a day")
    return bin_s


def values_at(values: Floats, bins: NDArray[np.intp]) -> Floats:
    """The values of the bins of these indices; NaN for those before the first one."""
    result: Floats = values[np.maximum(bins, 0)]
    result[bins < 0] = np.nan
    return result


def shifted(values: Floats, bins: int) -> Floats:
    """The value so many bins before each bin, shape (bins,); NaN where there is none."""
    result = np.full(values.size, np.nan)
    result[bins:] = values[: max(0, values.size - bins)]
    return result


def rolling_mean(values: Floats, window: int, least: float | None = None) -> Floats:
    """Mean of those of the last `window` bins that are known, shape (bins,); NaN while they are fewer than
    `least` (default: half of the window).
    """
    is_counted = ~np.isnan(values)
    total = np.concatenate([[0.0], np.cumsum(np.where(is_counted, values, 0.0))])
    count = np.concatenate([[0], np.cumsum(is_counted)])
    start = np.maximum(np.arange(1, values.size + 1) - window, 0)
    number = count[1:] - count[start]
    mean: Floats = (total[1:] - total[start]) / np.maximum(number, 1)
    mean[number < (window / 2 if least is None else least)] = np.nan
    return mean


def rolling(
    values: Floats, window: int, statistic: Callable[..., Floats], bins: NDArray[np.intp] | None = None
) -> Floats:
    """A statistic (`statistic(windows, axis=1)`) of the last `window` bins up to each of `bins` (default:
    all), shape (bins,); NaN before there are so many.
    """
    ends = np.arange(values.size) if bins is None else bins
    result = np.full(ends.size, np.nan)
    whole = ends >= window - 1
    if whole.any():
        windows = sliding_window_view(values, window)
        result[whole] = statistic(windows[ends[whole] - window + 1], axis=1)
    return result


def mean_of(values: Floats, bins: Iterable[NDArray[np.intp]]) -> Floats:
    """Mean, element by element, of the values at several indices, of those that are known; NaN: none is.

    Raises ValueError without any indices.
    """
    total: Floats | None = None
    number: Floats | None = None
    for index in bins:
        values_here = values_at(values, index)
        is_counted = values_here == values_here
        values_here[~is_counted] = 0.0
        total, number = (
            (values_here, is_counted.astype(np.float64))
            if total is None
            else (total + values_here, number + is_counted)
        )
    if total is None or number is None:
        raise ValueError("no indices")
    total /= np.maximum(number, 1.0)
    total[number == 0] = np.nan
    return total


def soft_mean(values: Floats, span: float) -> Floats:
    """Exponentially weighted mean with weight 2 / (span + 1) on the newest bin; it begins at the first known
    bin.
    """
    # A recursion would be a loop in Python over all bins.
    keep = 1.0 - 2.0 / (span + 1.0)
    result = np.full(values.size, np.nan)
    first = int(np.isnan(values).sum())
    if first == values.size:
        return result
    mean = float(values[first])
    # Within a stretch the sum of keep^(t - i) counts[i] is keep^t times a running sum; e^60 is no overflow.
    stretch = max(int(60.0 / -np.log(keep)), 1)
    powers = keep ** np.arange(1, min(stretch, values.size) + 1)
    for start in range(first, values.size, stretch):
        part = values[start : start + stretch]
        decay = powers[: part.size]
        result[start : start + stretch] = decay * (mean + (1.0 - keep) * np.cumsum(part / decay))
        mean = float(result[start + part.size - 1])
    return result


def hour_and_weekday(starts_s: NDArray[np.int64], utc_offset_s: int) -> tuple[Floats, Floats]:
    """Hour of the day (with fraction) and day of the week (Monday 0) of these seconds since 1970, on a clock
    that is `utc_offset_s` before UTC.
    """
    local = starts_s + utc_offset_s
    hour = (local % DAY_S) / float(HOUR_S)
    weekday = ((local // DAY_S + _EPOCH_DAY_OF_WEEK) % 7).astype(np.float64)
    return hour, weekday


@dataclass(frozen=True)
class RecentBins:
    """Features of what the newest bins were like: windows in bins, `soft_weights` of the newest bin.

    `known_share`: of a window's bins this share must be there for a mean. `whole_numbers`: of a series of
    whole numbers deviations are made of sums.
    """

    lags: Sequence[int]
    means: Sequence[int]
    medians: Sequence[int]
    deviations: Sequence[int]
    extremes: Sequence[int]
    soft_weights: Sequence[float] = ()
    known_share: float = 0.5
    whole_numbers: bool = False

    def names(self, series: str) -> list[str]:
        """The names of the columns, each beginning with `series`."""
        return [
            *(f"{series}_lag_{lag}" for lag in self.lags),
            *(f"{series}_mean_{window}_bins" for window in self.means),
            *(f"{series}_median_{window}_bins" for window in self.medians),
            *(f"{series}_ewma_{round(100 * weight)}_pct" for weight in self.soft_weights),
            *(f"{series}_deviation_{window}_bins" for window in self.deviations),
            *(f"{series}_{end}_{window}_bins" for window in self.extremes for end in _EXTREMES),
        ]

    def columns(self, values: Floats, bins: NDArray[np.intp]) -> list[Floats]:
        """One column a name, each of shape (bins,), at the end of each of `bins`; NaN: too few are there.

        All but the deviations are differences from the newest bin.
        """
        newest = values[bins]
        columns = [values_at(values, bins - lag) for lag in self.lags]
        columns += [rolling_mean(values, size, self.known_share * size)[bins] for size in self.means]
        columns += [rolling(values, size, np.median, bins) for size in self.medians]
        columns += [soft_mean(values, soft_span(weight))[bins] for weight in self.soft_weights]
        columns = [column - newest for column in columns]
        columns += [self._deviation(values, size, bins) for size in self.deviations]
        for size in self.extremes:
            columns += [rolling(values, size, extreme, bins) - newest for extreme in _EXTREMES.values()]
        return columns

    def _deviation(self, values: Floats, size: int, bins: NDArray[np.intp]) -> Floats:
        if not self.whole_numbers:
            return rolling(values, size, np.std, bins)
        # Sums of squares of whole numbers are exact below 2^53, so that nothing cancels in E[x^2] - E[x]^2,
        # and one pass over the series serves every window; fractions would lose the small deviations.
        mean, squares = rolling_mean(values, size), rolling_mean(values * values, size)
        return np.sqrt(np.maximum(squares - mean * mean, 0.0))[bins]


_EXTREMES = {"highest": np.max, "lowest": np.min}


def soft_span(weight: float) -> float:
    """The span of the `soft_mean` that has this weight (0 to 1) on the newest bin."""
    return 2.0 / weight - 1.0
