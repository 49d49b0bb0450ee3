"""Features of a forecast of inference usage, with NumPy alone: a live scheduler computes the very same ones.

The forecast is made at the end of bin t, from bins up to t. What happened within the last ten bins (the
window of Lyra's predictor, section 6) is given as differences from the newest bin, because what is forecast
is by how much the usage will differ from it; beside them stand the usage itself, how much it swings, and the
hour of the day where the history holds more than one. The day of the week and later parts of the calendar are
left out: a fortnight shows each of them twice.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lucid_models.model_format import Fields
from lucid_models.series.windows import (
    DAY_S,
    Floats,
    RecentBins,
    check_divides_a_day,
    hour_and_weekday,
    read_bin_s,
    soft_mean,
    soft_span,
)

# Raised whenever a feature is added, dropped or computed in another way.
FEATURES_VERSION = 1

WINDOW_BINS = 10
LEVEL = "usage"
_RECENT = RecentBins(
    lags=(1, 2, 3),
    means=(3, 6, WINDOW_BINS),
    medians=(5,),
    deviations=(WINDOW_BINS,),
    extremes=(WINDOW_BINS,),
    soft_weights=(0.3, 0.5),
    known_share=1.0,
)
LEVELS = (LEVEL, f"usage_mean_{WINDOW_BINS}_bins", f"usage_lowest_{WINDOW_BINS}_bins")


@dataclass(frozen=True)
class LoadFeatures:
    """Which features are computed: `bin_s` is the length of a bin; `calendar`: whether the hour is one.

    `utc_offset_s`: the cluster's local time minus UTC.
    """

    bin_s: int = 300
    calendar: bool = True
    utc_offset_s: int = 0

    def __post_init__(self) -> None:
        check_divides_a_day(self.bin_s, "300 s")

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names in the order of the matrix's columns."""
        return (LEVEL, *_RECENT.names(LEVEL), *(["hour"] if self.calendar else []))

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Positions of features that share a shape function: what a level means depends on the hour."""
        names = self.names
        return tuple((names.index(name), names.index("hour")) for name in LEVELS) if self.calendar else ()

    def matrix(self, usage: Floats, first_bin_s: int, rows: slice = slice(None)) -> Floats:
        """Features of the forecast made at the end of every bin of `rows`, shape (rows, len(names)).

        `usage` (0 to 1) is of every bin, gaps held, from the bin that starts at `first_bin_s` (Unix time, s).
        Row t reads usage[: t + 1] only; what it lacks the history for is NaN.
        """
        bins = np.arange(usage.size)[rows]
        columns = [usage[rows], *_RECENT.columns(usage, bins)]
        if self.calendar:
            starts_s = first_bin_s + self.bin_s * bins.astype(np.int64)
            columns.append(hour_and_weekday(starts_s, self.utc_offset_s)[0])
        return np.stack(columns, axis=1)

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "version": FEATURES_VERSION,
            "bin_s": self.bin_s,
            "calendar": self.calendar,
            "utc_offset_s": self.utc_offset_s,
        }

    @classmethod
    def from_data(cls, fields: Fields) -> "LoadFeatures":
        """Read what `to_data` wrote; raises CorruptModelError, or FormatVersionError for features that this
        program does not compute.
        """
        fields.check_features("inference load", FEATURES_VERSION)
        return cls(read_bin_s(fields), fields.flag("calendar"), fields.integer("utc_offset_s", -DAY_S, DAY_S))


def ewma(usage: Floats, weight: float) -> Floats:
    """Exponentially weighted mean with `weight` (0 to 1) on the newest bin, shape (bins,), from the first bin
    on.
    """
    return soft_mean(usage, soft_span(weight))
