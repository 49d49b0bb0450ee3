"""Features of a forecast of busy nodes, with NumPy alone: a live scheduler computes the very same ones.

The forecast is made at the end of bin t, from bins up to t: lags, rolling means, medians and deviations, the
highest and the lowest lately (Helios section 4.3.2), and what followed this time of the last days and weeks.
All but the deviations are differences from the newest bin, because what is forecast is by how much demand
will differ from it: what was learned holds at any size of the cluster. The calendar is the hour and the day
of the week, and whether the day is a holiday where such days are stated. The month, the week and the day of
the year, which Helios' artifact reads as well, are left out: a forecast lies beyond those that it has seen.
"""

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np

from foundation.errors import BadInputError
from lucid_models.model_format import Fields
from lucid_models.series.windows import (
    DAY_S,
    WEEK_S,
    Floats,
    RecentBins,
    check_divides_a_day,
    hour_and_weekday,
    mean_of,
    read_bin_s,
    rolling,
    values_at,
)

# Raised whenever a feature is added, dropped or computed in another way.
FEATURES_VERSION = 1

# Bins of ten minutes.
LAGS = (1, 2, 3, 6, 12, 18, 36, 72)
MEAN_BINS = (3, 6, 18, 36, 72, 144, 1_008)
MEDIAN_BINS = (6, 18, 144)
DEVIATION_BINS = (6, 18, 144)
EXTREME_BINS = (18,)
DAYS = 7
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class DemandFeatures:
    """Which features are computed: those with a span that fits into the history that the model was trained
    on.

    `near_bins`: how many bins the forecast looks ahead (and twice as many). `bin_s`: length of a bin;
    `utc_offset_s`: the cluster's local time minus UTC; `longest_s`: spans longer than this are left out;
    `holidays`: local days that are no working days, ascending; none: no such feature.
    """

    near_bins: int
    bin_s: int = 600
    utc_offset_s: int = 0
    longest_s: int = 4 * WEEK_S
    holidays: tuple[date, ...] = ()

    def __post_init__(self) -> None:
        check_divides_a_day(self.bin_s)
        if not 1 <= self.near_bins <= 10_000:
            raise BadInputError(
                f"A forecast of the next {self.near_bins} bins.", remedy="Choose 1 to 10000 bins."
            )

    @property
    def day_bins(self) -> int:
        """Bins of a day."""
        return DAY_S // self.bin_s

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names in the order of the matrix's columns."""
        names = self._recent.names("busy")
        names += [f"busy_after_{bins}_bins_a_{unit}_ago" for unit, _, bins in self._analogues]
        if self._days:
            names.append(f"busy_after_{self.near_bins}_bins_last_days")
        return (*names, "hour", "day_of_week", *(["holiday"] if self.holidays else []))

    @property
    def history_bins(self) -> int:
        """Bins up to the newest that the features read."""
        windows = self._fitting((*LAGS, *MEAN_BINS, *MEDIAN_BINS, *DEVIATION_BINS, *EXTREME_BINS))
        back = [shift for _, shift, _ in self._analogues] + [day * self.day_bins for day in self._days]
        return 1 + max([*windows, *back, 1])

    def matrix(self, busy: Floats, first_bin_s: int, rows: slice | None = None) -> Floats:
        """Features of the forecast made at the end of every bin, shape (bins, len(names)).

        `busy` holds the busy nodes of every bin, gaps held, from the bin that starts at `first_bin_s` (Unix
        time, s). Row t reads busy[: t + 1] only. `rows` keeps a part of the rows.
        """
        values = np.asarray(busy, dtype=np.float64)
        kept = np.arange(values.size)[rows if rows is not None else slice(None)]
        columns = self._recent.columns(values, kept)
        after = {bins: mean_after(values, bins) - values for bins in {self.near_bins, 2 * self.near_bins}}
        columns += [values_at(after[bins], kept - shift) for _, shift, bins in self._analogues]
        if self._days:
            columns.append(mean_of(after[self.near_bins], (kept - day * self.day_bins for day in self._days)))
        starts_s = first_bin_s + self.bin_s * kept.astype(np.int64)
        columns += hour_and_weekday(starts_s, self.utc_offset_s)
        if self.holidays:
            free = [day.toordinal() - _EPOCH for day in self.holidays]
            columns.append(np.isin((starts_s + self.utc_offset_s) // DAY_S, free).astype(np.float64))
        return np.stack(columns, axis=1)

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "version": FEATURES_VERSION,
            "near_bins": self.near_bins,
            "bin_s": self.bin_s,
            "utc_offset_s": self.utc_offset_s,
            "longest_s": self.longest_s,
            "holidays": [day.isoformat() for day in self.holidays],
        }

    @classmethod
    def from_data(cls, fields: Fields) -> "DemandFeatures":
        """Read what `to_data` wrote; raises CorruptModelError, or FormatVersionError for features that this
        program does not compute.
        """
        fields.check_features("node demand", FEATURES_VERSION)
        try:
            holidays = read_holidays(fields.texts("holidays", most=100_000))
        except BadInputError as error:
            raise fields.fail("holidays", f"names no days: {error}") from error
        return cls(
            fields.integer("near_bins", 1, 10_000),
            read_bin_s(fields),
            fields.integer("utc_offset_s", -DAY_S, DAY_S),
            fields.integer("longest_s", 0, 520 * WEEK_S),
            holidays,
        )

    @cached_property
    def _recent(self) -> RecentBins:
        fitting = self._fitting
        return RecentBins(
            lags=fitting(LAGS),
            means=fitting(MEAN_BINS),
            medians=fitting(MEDIAN_BINS),
            deviations=fitting(DEVIATION_BINS),
            extremes=fitting(EXTREME_BINS),
            whole_numbers=True,
        )

    @property
    def _analogues(self) -> list[tuple[str, int, int]]:
        """What followed this time a day and a week ago: the unit, how far back, of how many bins the mean."""
        spans = (("day", self.day_bins), ("week", 7 * self.day_bins))
        return [
            (unit, shift, bins)
            for unit, shift in self._reaching(spans)
            for bins in (self.near_bins, 2 * self.near_bins)
            if bins <= shift
        ]

    def _reaching(self, spans: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
        return [(unit, shift) for unit, shift in spans if shift * self.bin_s <= self.longest_s]

    @property
    def _days(self) -> list[int]:
        """How many days back it is read what followed this time; only what is known by now."""
        return [
            day
            for day in range(1, DAYS + 1)
            if self.near_bins <= day * self.day_bins and day * DAY_S <= self.longest_s
        ]

    def _fitting(self, windows: tuple[int, ...]) -> list[int]:
        """Windows in bins of ten minutes, as bins of this length, without those that are too long."""
        bins = {max(window * 600 // self.bin_s, 1) for window in windows if window * 600 <= self.longest_s}
        return sorted(bins)


def mean_after(busy: Floats, bins: int) -> Floats:
    """Mean of the `bins` bins after each one, shape (bins,); NaN where not all of them are there."""
    result = np.full(busy.size, np.nan)
    if busy.size > bins:
        total = np.concatenate([[0.0], np.cumsum(busy)])
        result[: busy.size - bins] = (total[bins + 1 :] - total[1 : busy.size - bins + 1]) / bins
    return result


def highest_after(busy: Floats, bins: int) -> Floats:
    """The highest of the `bins` bins after each one, shape (bins,); NaN where not all of them are there."""
    result = np.full(busy.size, np.nan)
    if busy.size > bins:
        result[: busy.size - bins] = rolling(busy, bins, np.max)[bins:]
    return result


def read_holidays(days: list[str]) -> tuple[date, ...]:
    """Days written as 2017-12-25, ascending; raises BadInputError for what names no day."""
    try:
        return tuple(sorted({date.fromisoformat(day) for day in days}))
    except ValueError as error:
        raise BadInputError(f"A holiday is no date: {error}.", remedy="Write it as 2017-12-25.") from error
