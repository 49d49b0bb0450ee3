"""Features of a throughput forecast, with NumPy alone, so that a live scheduler computes the very same ones.

For the bin with index t and a lead of L bins everything is computed from bins up to t - L, the newest that is
known when the forecast is made, plus the calendar of bin t itself. Lags, rolling means and weighted soft sums
follow Lucid section 3.5.2; the date, the month and the week number are left out because a forecast lies
beyond them.

Bursts stretch over orders of magnitude and clusters grow, so history is measured against the *level*, the
geometric mean of 1 + count over the last day and the last week (half each, so that neither growth nor one
silent day leads astray): a feature is the natural logarithm of (1 + count) / level, and the model forecasts
multiples of the level. What was learned holds at any size of the cluster, and forecasts follow when demand
doubles. A burst moves a geometric mean as little as it moves the paper's medians.

An additive model cannot multiply a daily pattern by how busy the cluster is; on the logarithmic scale that is
a sum, and the `..._at_level` features hand it over: what the last days (or weeks) brought at this time,
raised by how far the last hours lie above the same hours of those days.

The last column is a naive forecast, the median of the newest known bins, which nothing is learned over: a
model leans on it, and on the newest bin, as far as they were the better ones (blend).

A bin without a count (NaN) is taken to be what the same time of the last days brought (`filled`); so is a
silence that was longer than usual, once it is over (silences).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.model_format import Fields
from lucid_models.series.windows import (
    DAY_S,
    HOUR_S,
    WEEK_S,
    Floats,
    check_divides_a_day,
    hour_and_weekday,
    mean_of,
    read_bin_s,
    rolling,
    rolling_mean,
    soft_mean,
    values_at,
)
from lucid_models.throughput.silences import as_known

# Raised whenever a feature is added, dropped or computed in another way.
FEATURES_VERSION = 3

LEVEL = "log_level"
MEDIAN_BINS = 12
MEDIAN = f"log_median_{MEDIAN_BINS}_bins"
LAGS = (0, 1, 2, 3, 4, 5)
MEAN_SPANS_S = (1_800, HOUR_S, 3 * HOUR_S, 6 * HOUR_S, WEEK_S)
LEVEL_SPANS_S = (HOUR_S, 3 * HOUR_S, 6 * HOUR_S)
SMOOTHED_S = HOUR_S  # a pattern is averaged over the time of day, give or take this
EWMA_BINS = (2, 6, 24, 144)
SLOT_DAYS = 7
SLOT_WEEKS = 4
# Sums of numbers with so many binary digits after the point are exact, wherever a history begins.
_LOG_STEPS = 2.0**26


@dataclass(frozen=True)
class ThroughputFeatures:
    """Which features are computed: those with a span that fits into the history that the model was trained
    on.

    `bin_s`: length of a bin; `lead_bins` >= 1: how far the forecast bin lies after the newest known one;
    `utc_offset_s`: the cluster's local time minus UTC, so that hours and weekdays are those of its users;
    `longest_s`: spans longer than this are left out; `usual_silence_bins`: silences longer than this are read
    as unknown once they are over (0: none is).
    """

    bin_s: int
    lead_bins: int
    utc_offset_s: int = 0
    longest_s: int = 4 * WEEK_S
    usual_silence_bins: int = 0

    def __post_init__(self) -> None:
        check_divides_a_day(self.bin_s)
        if self.lead_bins < 1:
            raise BadInputError(
                f"A lead of {self.lead_bins} bins would read the bin to forecast.",
                remedy="Choose at least 1.",
            )

    @property
    def day_bins(self) -> int:
        """Bins of a day."""
        return DAY_S // self.bin_s

    @property
    def mean_bins(self) -> tuple[int, ...]:
        """Windows of the rolling means, in bins."""
        return self._windows(MEAN_SPANS_S)

    @property
    def level_bins(self) -> tuple[int, ...]:
        """Windows over which the present level is compared with that of the last days and weeks, in bins."""
        return self._windows(LEVEL_SPANS_S, shortest=1)

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
        """Feature names in the order of the matrix's columns: the learned ones, then the naive forecast."""
        return (*self.learned_names, MEDIAN)

    @property
    def learned_names(self) -> tuple[str, ...]:
        """The features that shape functions are learned over."""
        names = [f"log_lag_{lag + self.lead_bins}" for lag in LAGS]
        names += [f"log_mean_{window}_bins" for window in self.mean_bins]
        names += [f"log_soft_mean_{span}_bins" for span in self.ewma_bins]
        if self.slot_days:
            names += ["log_same_time_last_days"]
            names += [f"log_level_over_days_{window}_bins" for window in self.level_bins]
            names += [f"log_days_at_level_{window}_bins" for window in self.level_bins]
        if self.slot_weeks:
            names += ["log_same_time_last_weeks"]
            names += [f"log_weeks_at_level_{window}_bins" for window in self.level_bins]
        return (*names, LEVEL, "hour", "day_of_week")

    @property
    def newest_name(self) -> str:
        """The feature that is the newest known bin."""
        return f"log_lag_{self.lead_bins}"

    @property
    def history_bins(self) -> int:
        """Bins before a forecast bin that its features read (soft means reach further, with vanishing
        weight).
        """
        windows = (*self._level_spans, *self.mean_bins, *self.level_bins, MEDIAN_BINS)
        back = max(
            [day * self.day_bins for day in (*self.slot_days, *(7 * w for w in self.slot_weeks))] or [0]
        )
        reach = self.lead_bins + max([len(LAGS), *windows])
        levels = self.lead_bins + back + max([1, *self.level_bins, self._smoothed])
        return max(reach, levels, 8 * max(self.ewma_bins, default=1)) + self.usual_silence_bins

    def matrix(self, counts: Floats, first_bin_s: int, rows: slice | None = None) -> Floats:
        """Features of every bin, shape (bins, len(names)).

        `counts` holds one value a bin (NaN: unknown) from the bin that starts at `first_bin_s` (Unix time,
        s). Row t reads counts[: t - lead_bins + 1] only. `rows` keeps a part of the rows.
        """
        recorded = np.asarray(counts, dtype=np.float64)
        kept = np.arange(recorded.size)[rows if rows is not None else slice(None)]
        result = np.empty((kept.size, len(self.names)))
        for here, known in self.known_to(recorded, kept):
            result[here] = self._rows(known[: kept[here][-1] + 1], first_bin_s, kept[here])
        return result

    def known_to(self, counts: Floats, rows: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.bool_], Floats]]:
        """Yield the series as it was known to rows in turn: which of `rows` (bins, ascending) read these
        values; a silence that was over by then is NaN in them (silences).
        """
        known = list(as_known(counts, self.usual_silence_bins))
        firsts = np.array([first for first, _ in known[1:]], dtype=np.intp)
        turn = np.searchsorted(firsts, rows - self.lead_bins, side="right")
        for i in np.unique(turn).tolist():
            yield turn == i, known[i][1]

    def _rows(self, known: Floats, first_bin_s: int, kept: NDArray[np.intp]) -> Floats:
        values = filled(known, self.day_bins)
        newest_readable = kept - self.lead_bins  # the newest bin that each row may read
        # Rounded so that running sums are exact: a window's mean is then the same bits whether the sum began
        # a week ago (live) or years ago (training).
        logs = np.rint(np.log1p(values) * _LOG_STEPS) / _LOG_STEPS
        means = {window: rolling_mean(logs, window) for window in {*self.mean_bins, *self.level_bins}}
        level = values_at(
            np.mean([rolling_mean(logs, window, least=1) for window in self._level_spans], axis=0),
            newest_readable,
        )
        columns = [values_at(logs, newest_readable - lag) - level for lag in LAGS]
        columns += [values_at(means[window], newest_readable) - level for window in self.mean_bins]
        columns += [
            np.log1p(values_at(soft_mean(values, span), newest_readable)) - level for span in self.ewma_bins
        ]
        for unit, slots in ((self.day_bins, self.slot_days), (7 * self.day_bins, self.slot_weeks)):
            if not slots:
                continue
            columns.append(np.log1p(mean_of(values, (kept - slot * unit for slot in slots))) - level)
            # What a slot brought is known an hour later, or at the lead if that is earlier.
            smoothed = rolling_mean(logs, 2 * self._smoothed + 1)
            usual = mean_of(
                smoothed, (np.minimum(kept - slot * unit + self._smoothed, newest_readable) for slot in slots)
            )
            above = [
                values_at(means[window], newest_readable)
                - mean_of(means[window], (newest_readable - slot * unit for slot in slots))
                for window in self.level_bins
            ]
            columns += above if unit == self.day_bins else []
            columns += [usual + rise - level for rise in above]
        columns.append(level)
        columns += hour_and_weekday(first_bin_s + self.bin_s * kept.astype(np.int64), self.utc_offset_s)
        columns.append(np.log1p(rolling(values, MEDIAN_BINS, np.median, newest_readable)) - level)
        return np.stack(columns, axis=1)

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "version": FEATURES_VERSION,
            "bin_s": self.bin_s,
            "lead_bins": self.lead_bins,
            "utc_offset_s": self.utc_offset_s,
            "longest_s": self.longest_s,
            "usual_silence_bins": self.usual_silence_bins,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any] | Fields) -> "ThroughputFeatures":
        """Read what `to_data` wrote; raises CorruptModelError, or FormatVersionError for features that this
        program no longer computes.
        """
        fields = data if isinstance(data, Fields) else Fields(data, "features")
        fields.check_features("throughput", FEATURES_VERSION)
        return cls(
            read_bin_s(fields),
            fields.integer("lead_bins", 1, 100_000),
            fields.integer("utc_offset_s", -DAY_S, DAY_S),
            fields.integer("longest_s", 0, 520 * WEEK_S),
            fields.integer("usual_silence_bins", 0, DAY_S),
        )

    @property
    def _level_spans(self) -> tuple[int, ...]:
        """Windows, in bins; the mean of their log means is the level."""
        return (self.day_bins, 7 * self.day_bins) if self.longest_s >= WEEK_S else (self.day_bins,)

    @property
    def _smoothed(self) -> int:
        return SMOOTHED_S // self.bin_s

    def _windows(self, spans_s: tuple[int, ...], shortest: int = 2) -> tuple[int, ...]:
        windows = {max(span // self.bin_s, 1) for span in spans_s if span <= self.longest_s}
        return tuple(sorted(window for window in windows if window >= shortest))

    def _slots(self, span_s: int, most: int) -> tuple[int, ...]:
        return tuple(
            slot
            for slot in range(1, most + 1)
            if slot * span_s >= self.lead_bins * self.bin_s and slot * span_s <= self.longest_s
        )


def filled(counts: Floats, day_bins: int) -> Floats:
    """The series with each unknown bin (NaN) replaced by the mean of the same time on the last days.

    Before there are any, the last known count stands in; what comes before the first known bin stays NaN.
    Each bin is made from earlier ones alone.
    """
    unknown = np.isnan(counts)
    if not unknown.any():
        return counts
    result = counts.copy()
    for day in np.unique(np.flatnonzero(unknown) // day_bins).tolist():
        start, end = day * day_bins, min((day + 1) * day_bins, counts.size)
        block = result[start:end]
        slots = np.arange(start, end)
        usual = mean_of(result, (slots - back * day_bins for back in range(1, SLOT_DAYS + 1)))
        block[:] = np.where(np.isnan(block), usual, block)
        is_counted = ~np.isnan(block)
        last = np.maximum.accumulate(np.where(is_counted, slots, start - 1))
        block[:] = values_at(result, last)
    return result
