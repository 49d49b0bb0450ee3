"""Features of a throughput forecast, with NumPy alone, so that a live scheduler computes the very same ones.

For the bin with index t and a lead of L bins everything is computed from bins up to t - L, the newest that is
known when the forecast is made, plus the calendar of bin t itself. Lags, rolling means and medians and
weighted soft sums follow Lucid section 3.5.2; the date, the month and the week number are left out because a
forecast lies beyond them. A bin that nobody counted is missing (NaN), and statistics over it use what is
there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from cluster_logs.errors import BadInputError
from lucid_models.model_format import Fields

DAY_S = 86_400
WEEK_S = 7 * DAY_S
# 1970-01-01 was a Thursday; days of the week count from Monday = 0.
_EPOCH_DAY_OF_WEEK = 3

LAGS = (0, 1, 2, 3, 4, 5)
MEAN_SPANS_S = (1_800, 3_600, 10_800, 21_600, DAY_S, WEEK_S)
MEDIAN_SPANS_S = (7_200, 10_800, 21_600)
EWMA_BINS = (2, 6, 24, 144)
SLOT_DAYS = 7
SLOT_WEEKS = 4


@dataclass(frozen=True)
class ThroughputFeatures:
    """Which features are computed: those whose span fits into the history that the model was trained on.

    `bin_s`: length of a bin; `lead_bins` >= 1: how far the forecast bin lies after the newest known one;
    `utc_offset_s`: the cluster's local time minus UTC, so that hours and weekdays are those of its users;
    `longest_s`: spans longer than this are left out.
    """

    bin_s: int
    lead_bins: int
    utc_offset_s: int = 0
    longest_s: int = 4 * WEEK_S

    def __post_init__(self) -> None:
        if not 1 <= self.bin_s <= DAY_S or DAY_S % self.bin_s:
            raise BadInputError(
                f"A bin of {self.bin_s} s does not divide a day.", remedy="Choose for example 600 s."
            )
        if self.lead_bins < 1:
            raise BadInputError(
                f"A lead of {self.lead_bins} bins would read the bin to forecast.",
                remedy="Choose at least 1.",
            )

    @property
    def mean_bins(self) -> tuple[int, ...]:
        """Windows of the rolling means, in bins."""
        return self._windows(MEAN_SPANS_S)

    @property
    def median_bins(self) -> tuple[int, ...]:
        """Windows of the rolling medians, in bins."""
        return self._windows(MEDIAN_SPANS_S)

    @property
    def ewma_bins(self) -> tuple[int, ...]:
        """Spans of the exponentially weighted means, in bins."""
        return tuple(span for span in EWMA_BINS if span * self.bin_s <= self.longest_s)

    @property
    def slot_days(self) -> tuple[int, ...]:
        """How many days back the same time of day is read; only days that are known at this lead."""
        return self._slots(DAY_S, SLOT_DAYS)

    @property
    def slot_weeks(self) -> tuple[int, ...]:
        """How many weeks back the same time of the week is read."""
        return self._slots(WEEK_S, SLOT_WEEKS)

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names in the order of the matrix's columns."""
        names = [f"log_lag_{lag + self.lead_bins}" for lag in LAGS]
        names += [f"mean_{window}_bins" for window in self.mean_bins]
        names += [f"median_{window}_bins" for window in self.median_bins]
        names += [f"soft_mean_{span}_bins" for span in self.ewma_bins]
        names += ["same_time_last_days"] if self.slot_days else []
        names += ["same_time_last_weeks"] if self.slot_weeks else []
        return (*names, "hour", "day_of_week")

    @property
    def history_bins(self) -> int:
        """Bins before a forecast bin that its features read (soft means reach further, with vanishing
        weight).
        """
        windows = [*(window + self.lead_bins for window in (*self.mean_bins, *self.median_bins))]
        windows += [day * (DAY_S // self.bin_s) for day in self.slot_days]
        windows += [week * (WEEK_S // self.bin_s) for week in self.slot_weeks]
        return max([len(LAGS) + self.lead_bins, 8 * max(self.ewma_bins, default=1), *windows])

    def matrix(
        self, counts: NDArray[np.float64], first_bin_s: int, rows: slice | None = None
    ) -> NDArray[np.float64]:
        """Features of every bin, shape (bins, len(names)).

        `counts` holds one value a bin (NaN: unknown) from the bin that starts at `first_bin_s` (Unix time,
        s). Row t reads counts[: t - lead_bins + 1] only. `rows` keeps a part of the rows.
        """
        values = np.asarray(counts, dtype=np.float64)
        known = [_lagged(np.log1p(values), lag) for lag in LAGS]
        known += [_rolling_mean(values, window) for window in self.mean_bins]
        known += [_rolling_median(values, window) for window in self.median_bins]
        known += [_soft_mean(values, span) for span in self.ewma_bins]
        columns = [_lagged(column, self.lead_bins) for column in known]
        for slots, span in ((self.slot_days, DAY_S), (self.slot_weeks, WEEK_S)):
            if slots:
                columns.append(_mean_of([_lagged(values, slot * (span // self.bin_s)) for slot in slots]))
        local = first_bin_s + self.utc_offset_s + self.bin_s * np.arange(values.size, dtype=np.int64)
        columns.append((local % DAY_S) / 3_600.0)
        columns.append(((local // DAY_S + _EPOCH_DAY_OF_WEEK) % 7).astype(np.float64))
        result = np.stack(columns, axis=1)
        return result if rows is None else result[rows]

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "bin_s": self.bin_s,
            "lead_bins": self.lead_bins,
            "utc_offset_s": self.utc_offset_s,
            "longest_s": self.longest_s,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any] | Fields) -> "ThroughputFeatures":
        """Read what `to_data` wrote; raises CorruptModelError."""
        fields = data if isinstance(data, Fields) else Fields(data, "features")
        bin_s = fields.integer("bin_s", 1, DAY_S)
        if DAY_S % bin_s:
            raise fields.fail("bin_s", f"is {bin_s}, which does not divide a day")
        return cls(
            bin_s,
            fields.integer("lead_bins", 1, 100_000),
            fields.integer("utc_offset_s", -DAY_S, DAY_S),
            fields.integer("longest_s", 0, 520 * WEEK_S),
        )

    def _windows(self, spans_s: tuple[int, ...]) -> tuple[int, ...]:
        windows = {max(span // self.bin_s, 1) for span in spans_s if span <= self.longest_s}
        return tuple(sorted(window for window in windows if window > 1))

    def _slots(self, span_s: int, most: int) -> tuple[int, ...]:
        return tuple(
            slot
            for slot in range(1, most + 1)
            if slot * span_s >= self.lead_bins * self.bin_s and slot * span_s <= self.longest_s
        )


def _lagged(values: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    result = np.full(values.size, np.nan)
    if bins < values.size:
        result[bins:] = values[: values.size - bins]
    return result


def _rolling_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Mean of the last `window` bins that were counted; NaN while fewer than half of them were."""
    known = ~np.isnan(values)
    total = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    count = np.concatenate([[0], np.cumsum(known)])
    start = np.maximum(np.arange(1, values.size + 1) - window, 0)
    number = count[1:] - count[start]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (total[1:] - total[start]) / number
    return np.where(2 * number >= window, mean, np.nan)


def _rolling_median(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Median of the last `window` bins; NaN while one of them is missing."""
    result = np.full(values.size, np.nan)
    if values.size >= window:
        result[window - 1 :] = np.median(sliding_window_view(values, window), axis=1)
    return result


def _soft_mean(values: NDArray[np.float64], span: int) -> NDArray[np.float64]:
    """Exponentially weighted mean with weight 2 / (span + 1) on the newest bin; a missing bin changes
    nothing.
    """
    weight = 2.0 / (span + 1.0)
    result = []
    current = np.nan
    for value in values.tolist():
        if value == value:
            current = value if current != current else current + weight * (value - current)
        result.append(current)
    return np.array(result)


def _mean_of(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    stacked = np.stack(columns)
    known = ~np.isnan(stacked)
    number = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, stacked, 0.0).sum(axis=0) / number
    return np.where(number > 0, mean, np.nan)
