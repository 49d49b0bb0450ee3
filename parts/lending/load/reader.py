"""The load of inference servers: CSV time (or time_s), usage (0 to 1) or requests_per_s; where there is one,
gap (0 or 1) and servers. Rates of one of several services in a file are in the column that the caller names.

Times may be text or seconds since 1970; other columns are not read. Where requests alone are known, the usage
is their share of a full load that the caller knows, or else 0.65 x requests / mean requests, at most 0.98.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.node_states import MAX_NODES
from cluster_logs.readers.base import Context, Reader, ReadOptions
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import FloatArray, Mask, RowChecker, parse_numbers
from cluster_logs.readers.source import NOT_A_TIME, RawChunk, TextSource
from parts.lending.load.table import (
    INFERENCE_LOAD_ROWS_SCHEMA,
    MAX_RATE,
    MEAN_USAGE,
    MOST_USAGE,
    PUBLISHED,
    RATES,
    LoadReading,
)

_TIME, _USAGE = "time|time_s", "usage"


def load_of(options: ReadOptions) -> LoadReading:
    """Return what the caller knows of the pool."""
    return options.beside if isinstance(options.beside, LoadReading) else LoadReading()


def _rate_column(options: ReadOptions) -> str:
    return load_of(options).rates_column.strip().lower()


def _chunks(source: TextSource, options: ReadOptions) -> Iterator[RawChunk]:
    """Cut the file into the columns that are read: of a named column of rates, and not of usage then."""
    rate = _rate_column(options)
    stated, usage = (f"{_USAGE}|{RATES}", (_USAGE,)) if rate == RATES else (rate, ())
    return Layout(required=(_TIME, stated), optional=(*usage, rate, "gap", "servers")).read(source)


def _full_load(source: TextSource, options: ReadOptions) -> float | None:
    """Return the requests a second that occupy all servers; None where no rate of the file says."""
    if load_of(options).full_load_per_s is not None:
        return load_of(options).full_load_per_s
    total, count = 0.0, 0
    column = _rate_column(options)
    for chunk in _chunks(source, options):
        if _USAGE in chunk.columns or column not in chunk.columns:
            return None
        rates = parse_numbers(chunk.columns[column]).values
        measured = np.isfinite(rates) & (rates >= 0) & (rates <= MAX_RATE)
        if "gap" in chunk.columns:
            measured &= parse_numbers(chunk.columns["gap"]).values != 1
        if load_of(options).zeros_are_gaps:
            measured &= rates > 0
        total, count = total + float(rates[measured].sum()), count + int(measured.sum())
    return total / count / MEAN_USAGE if total > 0 else None


def _usage(checker: RowChecker, context: Context) -> tuple[FloatArray, str]:
    """Return the usage of each row, NaN where none is stated, and the column that states it."""
    if _USAGE in checker:
        usage = checker.number(_USAGE)
        checker.reject((usage < 0) | (usage > 1), q.IMPLAUSIBLE_USAGE, _USAGE)
        return usage, _USAGE
    column = _rate_column(context.options)
    rate = checker.number(column)
    checker.reject((rate < 0) | (rate > MAX_RATE), q.IMPLAUSIBLE_USAGE, column)
    if not isinstance(context.facts, float):
        return rate, column  # nothing but zeros
    return np.minimum(rate / context.facts, MOST_USAGE), column


def _gaps(checker: RowChecker) -> Mask:
    if "gap" not in checker:
        return np.zeros(len(checker), dtype=np.bool_)
    flags = checker.number("gap")
    checker.reject(~np.isin(flags, (0.0, 1.0)) & ~np.isnan(flags), q.UNREADABLE_NUMBER, "gap")
    return np.equal(flags, 1.0)


def _servers(checker: RowChecker, context: Context) -> FloatArray:
    stated = load_of(context.options).servers
    servers = np.full(len(checker), np.nan if stated is None else float(stated))
    if "servers" not in checker:
        return servers
    counts = checker.number("servers")
    checker.reject(counts < 0, q.NEGATIVE_COUNT, "servers")
    checker.reject(counts > MAX_NODES, q.IMPLAUSIBLE_COUNT, "servers")
    checker.reject(counts % 1 > 0, q.UNREADABLE_NUMBER, "servers")
    return np.where(np.isnan(counts), servers, counts)


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    time_column = checker.first_of(_TIME)
    times = checker.instant_or_seconds(time_column)
    checker.reject(times == NOT_A_TIME, q.MISSING_TIME, time_column)
    gap = _gaps(checker)
    usage, usage_column = _usage(checker, context)
    servers = _servers(checker, context)
    # A bin without a value is one that is not there; where it should be is a gap all the same.
    checker.skip(gap & np.isnan(usage), q.NO_VALUE)
    checker.reject(np.isnan(usage), q.MISSING_USAGE, usage_column)
    if load_of(context.options).zeros_are_gaps:
        gap = gap | (usage == 0)
    kept_rows = checker.kept()
    columns = {
        "time": pa.array(times[kept_rows]).cast(pa.timestamp("us", tz="UTC")),
        "usage": pa.array(usage[kept_rows]),
        "servers": pa.array(servers[kept_rows], pa.float64(), from_pandas=True).cast(pa.int32()),
        "gap": pa.array(gap[kept_rows]),
        "origin": pa.repeat(pa.scalar(PUBLISHED, pa.string()), int(kept_rows.sum())),
    }
    return pa.table(columns, schema=INFERENCE_LOAD_ROWS_SCHEMA)


READER = Reader(
    name="inference-load",
    summary="Load of inference servers (CSV time or time_s, usage or requests_per_s, gap, servers)",
    table="inference_load",
    time_zone="UTC",
    chunks=_chunks,
    normalise=_normalise,
    prepare=_full_load,
)
