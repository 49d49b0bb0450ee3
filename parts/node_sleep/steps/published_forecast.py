"""A forecast of busy nodes that was made elsewhere: CSV time, forecast; one row a bin."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_logs import quarantine as q
from cluster_logs.job_table import microseconds
from cluster_logs.readers.base import Context, Reader, ReadOptions, read_chunks
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.nodes_file import every_row
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.source import NOT_A_TIME
from foundation.errors import BadInputError
from parts.node_sleep.replay.control import BIN_S
from parts.node_sleep.replay.demand_window import DemandWindow
from parts.node_sleep.replay.series_forecast import SeriesForecaster

_FORECAST = "forecast|artifact_forecast"


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    times = checker.instant_or_seconds("time")
    checker.reject(times == NOT_A_TIME, q.MISSING_TIME, "time")
    column = checker.first_of(_FORECAST)
    values = checker.number(column)
    checker.reject(np.isnan(values), q.MISSING_COUNT, column)
    is_kept = checker.kept()
    instants = pa.array(times[is_kept]).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"time": instants, "forecast": values[is_kept]})


READER = Reader(
    name="node-forecast",
    summary="Forecast of busy nodes (CSV time, forecast)",
    table="node_states",
    time_zone="UTC",
    chunks=Layout(required=("time", _FORECAST)),
    normalise=_normalise,
)


@dataclass(frozen=True)
class PublishedForecast:
    """Busy nodes forecast for each bin, shape (bins,), from `start_s` (s since 1970) on."""

    path: str
    start_s: float
    values: NDArray[np.float64]

    def covers(self, window: DemandWindow) -> bool:
        """Return whether every bin of the window is forecast."""
        first = round((window.start_s - self.start_s) / BIN_S)
        return 0 <= first <= len(self.values) - len(window.running)

    def of(self, window: DemandWindow) -> NDArray[np.float64]:
        """Return the forecasts of the window's bins; raises BadInputError where the file lacks one."""
        first = round((window.start_s - self.start_s) / BIN_S)
        bins = len(window.running)
        if not self.covers(window):
            raise BadInputError(
                f"{self.path} does not forecast all bins that are replayed.",
                remedy="Choose --start and --end within it.",
            )
        return self.values[first : first + bins]

    def forecaster(self, near_bins: int) -> SeriesForecaster:
        """Return the file as a forecaster: what it says was known before the replay."""
        return SeriesForecaster(self.start_s, self.values, near_bins)


def read_published_forecast(path: str, *, time_zone: str = "UTC") -> PublishedForecast:
    """Read a forecast of every bin from the first row's to the last's, in any order.

    Raises BadInputError for a row that cannot be used, times that are no starts of bins, and bins that are
    named twice or missing.
    """
    chunks = read_chunks(READER, path, ReadOptions("nodes", time_zone))
    tables = [every_row(chunk, path) for chunk in chunks]
    rows = pa.concat_tables(tables) if tables else pa.table({"time": [], "forecast": []})
    if not rows.num_rows:
        raise BadInputError(f"{path} has no forecast.", remedy="Give rows of time, forecast.")
    times_us = microseconds(rows.column("time"))
    order = np.argsort(times_us, kind="stable")
    times_us = times_us[order]
    bin_us = BIN_S * 1_000_000
    wrong = np.flatnonzero(
        (np.diff(times_us, prepend=times_us[0] - bin_us) != bin_us) | (times_us % bin_us != 0)
    )
    if len(wrong):
        raise BadInputError(
            f"{path}: {np.datetime64(int(times_us[wrong[0]]), 'us')} is not the bin after the one before.",
            remedy=f"Give one forecast for each bin of {BIN_S} s, at its start.",
        )
    values = rows.column("forecast").to_numpy()[order]
    return PublishedForecast(path, float(times_us[0] / 1e6), values)
