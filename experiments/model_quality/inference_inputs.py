"""Series of inference usage that `lucid evaluate inference` reads: of a file, a lake, or a stand-in."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs.lake import Lake
from cluster_logs.node_series import read_node_series
from cluster_logs.readers.base import ReadOptions, load_reader, read_chunks
from cluster_logs.readers.nodes_file import every_row
from foundation.errors import BadInputError
from lucid_models.series.windows import Floats
from parts.lending.load.series import BIN_S, InferenceSeries, read_inference_series
from parts.lending.load.table import MEAN_USAGE, MOST_USAGE, LoadReading
from pipeline.training.windows import only_cluster

LOAD_FORMAT, NODES_FORMAT, LAKE = "inference-load", "node-sequence", "lake"
FORMATS = (LOAD_FORMAT, NODES_FORMAT, LAKE)


def read_load(
    source: str,
    source_format: str,
    load: LoadReading,
    *,
    cluster: str | None = None,
    bin_s: int | None = None,
) -> InferenceSeries:
    """The series of a file of inference load, of a lake's table, or of busy nodes for a stand-in.

    `bin_s`: default: the usual distance of two rows, of nodes 300 s. Busy nodes are the mean of each bin, as
    a share of `load.servers`. Raises BadInputError for a row that cannot be used, and without any.
    """
    if source_format == NODES_FORMAT:
        return _nodes(source, load.servers, bin_s or 300)
    if source_format == LAKE:
        rows = Lake(source).read_series("inference_load", cluster or only_cluster(source))
    elif source_format == LOAD_FORMAT:
        options = ReadOptions("load", beside=load)
        tables = [
            every_row(chunk, source) for chunk in read_chunks(load_reader(LOAD_FORMAT), source, options)
        ]
        if not tables:
            raise BadInputError(f"{source} holds no inference load.", remedy="Check how it was exported.")
        rows = pa.concat_tables(tables).to_pandas().sort_values("time", kind="stable")
    else:
        raise BadInputError(
            f"Format {source_format!r} holds no inference load.", remedy=f"Use {', '.join(FORMATS)}."
        )
    return read_inference_series(rows, source, bin_s=bin_s or _usual_bin_s(rows))


def _usual_bin_s(rows: pd.DataFrame) -> int:
    """The most frequent distance of two rows, the shorter of two, in whole seconds; of a single row a bin."""
    times = pd.to_datetime(rows["time"], utc=True).dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    distances, counts = np.unique(np.diff(times.astype(np.int64)) / 1e6, return_counts=True)
    return max(1, round(float(distances[np.argmax(counts)]))) if distances.size else BIN_S


def _nodes(source: str, servers: int | None, bin_s: int) -> InferenceSeries:
    series = read_node_series(Path(source))
    if servers is None:
        raise BadInputError("A usage of nodes needs their number.", remedy="Give it: --servers N.")
    steps = round(bin_s / series.step_s)
    whole = series.running.size // max(steps, 1) * max(steps, 1)
    if steps < 1 or steps * series.step_s != bin_s or not whole:
        raise BadInputError(
            f"A bin of {bin_s} s is not a whole number of steps of {series.step_s:g} s, or longer than the "
            "series.",
            remedy="Choose a multiple of the step.",
        )
    usage = series.running[:whole].reshape(-1, steps).mean(axis=1) / servers
    gap = np.logical_or.reduce(series.held[:whole].reshape(-1, steps), axis=1)
    return InferenceSeries(series.start_s, np.clip(usage, 0.0, 1.0), np.asarray(gap), servers, bin_s)


def scraped_requests(source: Path, *, scrape_s: int, bin_s: int = 300) -> InferenceSeries:
    """The usage that requests make, from the scrapes of a service's front (`timestamp_anon`, `value`).

    Such an export leaves out what was zero: a scrape without a row saw no request, and the rate of a bin is
    the mean of all of its scrapes. The usage is MEAN_USAGE on average, at most MOST_USAGE. Each request
    counts once: rows of `request_type` "API Requests", not those of the containers behind.
    """
    table = pd.read_csv(source)
    rows = table[table["request_type"] == "API Requests"]
    first_s = float(rows["timestamp_anon"].min())
    scrape = np.rint((rows["timestamp_anon"].to_numpy(dtype=np.float64) - first_s) / scrape_s).astype(int)
    rates = np.bincount(scrape, weights=rows["value"].to_numpy(dtype=np.float64))
    times_s = np.asarray(first_s + scrape_s * np.arange(rates.size), dtype=np.float64)
    rate, start_s = _bin_means(times_s, rates.astype(np.float64), bin_s)
    usage = np.minimum(MEAN_USAGE * rate / rate.mean(), MOST_USAGE)
    return InferenceSeries(start_s, usage, np.zeros(usage.size, dtype=np.bool_), None, bin_s)


def scraped_duty_cycle(source: Path, *, bin_s: int = 300) -> InferenceSeries:
    """The mean duty cycle of all pods' GPUs, from scrapes (`timestamp_anon`, `value` in percent)."""
    pods = pd.read_csv(source).groupby("timestamp_anon")["value"].mean() / 100.0
    usage, start_s = _bin_means(pods.index.to_numpy(dtype=np.float64), pods.to_numpy(), bin_s)
    return InferenceSeries(start_s, usage, np.zeros(usage.size, dtype=np.bool_), None, bin_s)


def _bin_means(times_s: Floats, values: Floats, bin_s: int) -> tuple[Floats, float]:
    """The mean of each bin, none of which is empty, and when the first one begins."""
    at = (times_s // bin_s).astype(int)
    cell = at - at[0]
    return np.bincount(cell, weights=values) / np.bincount(cell), float(at[0] * bin_s)


def last_days(series: InferenceSeries, test_days: float) -> float:
    """When the test of the last days begins, seconds since 1970; raises BadInputError where none is left."""
    begin_s = series.last_bin_start_s + series.bin_s - test_days * 86_400
    if begin_s <= series.start_s:
        raise BadInputError(
            f"A test of {test_days:g} days leaves nothing to learn from.", remedy="Give fewer days."
        )
    return begin_s
