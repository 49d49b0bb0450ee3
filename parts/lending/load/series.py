"""The load of inference servers as a regular series of bins, of five minutes by default, gaps held."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pandas as pd

from foundation.errors import BadInputError

BIN_S = 300
# Fifty years of bins: one row with a wrong year must not make more.
MOST_BINS = 5_300_000


@dataclass(frozen=True, slots=True)
class InferenceSeries:
    """Usage of a pool of inference servers, one value a bin of `bin_s` seconds; arrays of shape (bins,).

    - `start_s`: start of the first bin, seconds since 1970, a multiple of `bin_s`.
    - `usage`: mean share of the servers in use (0 to 1); in a gap that of the last measured bin before.
    - `gap`: bins in which nothing was measured.
    - `servers`: of the pool, by the newest row that says it; None: no row does.
    """

    start_s: float
    usage: npt.NDArray[np.float64]
    gap: npt.NDArray[np.bool_]
    servers: int | None
    bin_s: int = BIN_S

    @property
    def times_s(self) -> npt.NDArray[np.float64]:
        """Return the start of each bin, seconds since 1970."""
        return self.start_s + self.bin_s * np.arange(self.usage.size, dtype=np.float64)

    def first(self, bins: int) -> "InferenceSeries":
        """Return the first `bins` bins."""
        return replace(self, usage=self.usage[:bins], gap=self.gap[:bins])

    @property
    def last_bin_start_s(self) -> float:
        """Return the start of the newest bin, seconds since 1970."""
        return self.start_s + self.bin_s * (self.usage.size - 1)


def read_inference_series(
    rows: pd.DataFrame, source: str = "The table", *, bin_s: int = BIN_S
) -> InferenceSeries:
    """Return the bins of rows of the table `inference_load` (time, usage, servers, gap), by time.

    A row holds until the next one, at most for the usual distance of two rows. Of several rows in a bin the
    measured ones are averaged. Raises BadInputError where no row was measured.
    """
    measured = rows[~rows["gap"].astype(bool)]
    if measured.empty:
        raise BadInputError(f"{source} holds no measured inference load.", remedy="Ingest the load.")
    times_s = _seconds(rows["time"])
    first, last = (int(at // bin_s) for at in (times_s[0], times_s[-1]))
    bins = last - first + 1
    if bins > MOST_BINS:
        begin, end = (datetime.fromtimestamp(at, UTC).isoformat() for at in times_s[[0, -1]])
        raise BadInputError(
            f"{source} has inference load from {begin} to {end}: {bins:,} bins of {bin_s} s.",
            remedy="Correct the row with the wrong time.",
        )
    at_s = _seconds(measured["time"])
    cell = (at_s // bin_s).astype(np.int64) - first
    usage = measured["usage"].to_numpy(dtype=np.float64)
    count = np.bincount(cell, minlength=bins)
    total = np.bincount(cell, weights=usage, minlength=bins)
    # Which row holds in each bin: the newest that began before the bin ends.
    ends_s = (first + 1 + np.arange(bins, dtype=np.float64)) * bin_s
    newest = np.searchsorted(at_s, ends_s, side="left") - 1
    held = usage[np.maximum(newest, 0)]
    lasts_s = max(float(bin_s), _usual_distance_s(times_s))
    age_s = ends_s - bin_s - at_s[np.maximum(newest, 0)]
    values = np.where(count > 0, total / np.maximum(count, 1), held)
    stated_servers = rows["servers"].dropna()
    return InferenceSeries(
        start_s=float(first * bin_s),
        usage=values,
        gap=(count == 0) & ((newest < 0) | (age_s >= lasts_s)),
        servers=None if stated_servers.empty else int(stated_servers.iloc[-1]),
        bin_s=bin_s,
    )


def _seconds(times: pd.Series) -> npt.NDArray[np.float64]:
    instants = pd.to_datetime(times, utc=True).dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    return instants.astype(np.int64) / 1e6


def _usual_distance_s(times_s: npt.NDArray[np.float64]) -> float:
    """Return the most frequent distance of two rows, the shorter of two; of a single row a bin."""
    distances, counts = np.unique(np.diff(times_s), return_counts=True)
    return float(distances[np.argmax(counts)]) if distances.size else float(BIN_S)
