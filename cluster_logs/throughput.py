"""Submissions, starts and ends counted from the job table, in bins of equal length."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_table import THROUGHPUT_SCHEMA

DAY_S = 86_400
DEFAULT_BIN_S = 600
# One job with a wrong year must not make a million empty bins: a silence this long is left out of the series.
LONGEST_SILENCE_S = 366 * DAY_S

COLUMNS = ("submit_time", "start_time", "end_time", "gpus")
SERIES_SCHEMA = pa.schema([column for column in THROUGHPUT_SCHEMA if column.name != "cluster"])

_EVENTS = {"submitted": "submit_time", "started": "start_time", "ended": "end_time"}
_IntArray = npt.NDArray[np.int64]


def derive_throughput(jobs: Iterable[pa.Table], bin_s: int = DEFAULT_BIN_S) -> pa.Table:
    """The series of all jobs (tables with `COLUMNS`, any order), SERIES_SCHEMA by time, without the cluster.

    Complete between the first and the last event: a bin without events holds zeros, except in a silence of
    more than a year, which is left out. Starts (or ends) are null when no job's start (or end) is known.
    """
    counts_of: dict[str, list[tuple[_IntArray, _IntArray]]] = {event: [] for event in _EVENTS}
    for table in jobs:
        gpus = table.column("gpus").to_numpy().astype(np.int64)
        for event, column in _EVENTS.items():
            times = table.column(column)
            is_set = pc.is_valid(times).to_numpy()
            instants = times.drop_null().cast(pa.int64()).to_numpy()
            counts_of[event].append(_count(instants // (bin_s * 1_000_000), gpus[is_set]))
    events = {event: _together(parts) for event, parts in counts_of.items()}
    bins = _complete([numbers for numbers, _ in events.values()], LONGEST_SILENCE_S // bin_s)
    columns: dict[str, pa.Array] = {
        "bin_start": pa.array(bins * bin_s * 1_000_000).cast(pa.timestamp("us", tz="UTC")),
        "bin_s": pa.repeat(pa.scalar(bin_s, pa.int64()), len(bins)),
        "origin": pa.repeat(pa.scalar("derived", pa.string()), len(bins)),
    }
    for event, (numbers, counts) in events.items():
        series = np.zeros((len(bins), 3), dtype=np.int64)
        series[np.searchsorted(bins, numbers)] = counts
        for index, what in enumerate(("jobs", "gpu_jobs", "gpus")):
            unknown = event != "submitted" and not len(numbers)
            columns[f"{event}_{what}"] = (
                pa.nulls(len(bins), pa.int64()) if unknown else pa.array(series[:, index])
            )
    return pa.Table.from_arrays([columns[name] for name in SERIES_SCHEMA.names], schema=SERIES_SCHEMA)


def _count(bins: _IntArray, gpus: _IntArray) -> tuple[_IntArray, _IntArray]:
    """Distinct bins, and for each: jobs, jobs with GPUs, GPUs."""
    numbers, position = np.unique(bins, return_inverse=True)
    counts = np.zeros((len(numbers), 3), dtype=np.int64)
    np.add.at(counts, position, np.stack([np.ones_like(gpus), (gpus > 0).astype(np.int64), gpus], axis=1))
    return numbers, counts


def _together(parts: list[tuple[_IntArray, _IntArray]]) -> tuple[_IntArray, _IntArray]:
    if not parts:
        return np.zeros(0, dtype=np.int64), np.zeros((0, 3), dtype=np.int64)
    numbers, position = np.unique(np.concatenate([numbers for numbers, _ in parts]), return_inverse=True)
    counts = np.zeros((len(numbers), 3), dtype=np.int64)
    np.add.at(counts, position, np.concatenate([counts for _, counts in parts]))
    return numbers, counts


def _complete(parts: list[_IntArray], longest_silence: int) -> _IntArray:
    """All bins from the first to the last, without the silences that are too long."""
    seen = np.unique(np.concatenate(parts))
    if not len(seen):
        return seen
    edges = np.flatnonzero(np.diff(seen) > longest_silence) + 1
    spells = [np.arange(spell[0], spell[-1] + 1) for spell in np.split(seen, edges)]
    return np.concatenate(spells)
