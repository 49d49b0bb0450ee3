"""Samples of GPUs joined to the jobs that held them, by GPU and time.

A sample speaks of the one job that holds its GPU at its time. It counts for as long as it holds: until the
GPU's next sample, at most some scrape intervals (what lies beyond is a gap, and counts for nothing), and not
beyond the moment when the GPU changes hands or the day (UTC) ends. A figure that the next sample does not say
holds as if that sample had not come, so that all figures are of the same time. Where two jobs hold a GPU its
figures are of both and say nothing of either: such samples are counted, not joined.

Each sample has one fate, so: samples = joined + warm_up + shared + idle + outside + silent + repeated.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foundation.errors import BadInputError, LucidError

DAY_US = 86_400_000_000
_FOREVER = np.iinfo(np.int64).max // 4
_FATES = ("joined", "warm_up", "shared", "idle", "outside", "silent", "repeated")
MEANS = ("gpu_util_pct", "gpu_mem_util_pct", "power_w")
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JoinSettings:
    """How samples are joined to jobs (seconds).

    `warm_up_s`: the first so many seconds of each run are left out. Loading data and compiling say nothing of
    the training that follows; Lucid assumes (section 3.2) that jobs get this done within T_prof, 200 s at
    most, and most do in a fraction. `hold_intervals`: for how many scrape intervals a sample holds when the
    next one does not come. `interval_s` None: the samples' own, the median of their distances.
    """

    warm_up_s: float = 60.0
    hold_intervals: float = 2.0
    interval_s: float | None = None

    def __post_init__(self) -> None:
        if not self.warm_up_s >= 0 or not self.hold_intervals >= 1:
            raise BadInputError(
                f"A warm-up of {self.warm_up_s!r} s, and samples that hold for {self.hold_intervals!r} "
                "intervals.",
                remedy="Use 0 s or more, and 1 interval or more.",
            )
        if self.interval_s is not None and not self.interval_s > 0:
            raise BadInputError(f"A scrape interval of {self.interval_s!r} s.", remedy="Use more than 0 s.")


@dataclass(frozen=True)
class JoinReport:
    """What became of the samples (their fates add up), and the scrape interval that was taken."""

    samples: int
    joined: int
    warm_up: int
    shared: int
    idle: int
    outside: int
    silent: int
    repeated: int
    interval_s: float

    def check(self) -> None:
        """Raise LucidError when a sample was lost or counted twice."""
        out = sum(getattr(self, name) for name in _FATES)
        if out != self.samples:
            raise LucidError(
                f"Of {self.samples} samples {out} are accounted for.",
                remedy="Nothing was written. This is a fault of the join: please report it.",
            )


def join_samples(
    samples: pa.Table,
    allocations: pa.Table,
    jobs: pd.DataFrame,
    settings: JoinSettings | None = None,
) -> tuple[pd.DataFrame, JoinReport]:
    """What was seen of each job on each UTC day.

    `samples` (SAMPLE_SCHEMA) and `allocations` (ALLOCATION_SCHEMA) in any order; `jobs` with the columns
    job_id and submit_time: a run belongs to the job of its id that was submitted last before it began.
    Returns a row a job and day, sorted: job_id, submit_time (NaT where `jobs` lacks the id), gpu_util_pct,
    gpu_mem_util_pct and power_w (means over its GPUs and time, NaN where no sample said), gpu_mem_mib (the
    most of any GPU), gpus_seen, samples, observed_gpu_s (GPU-seconds for which samples held),
    expected_gpu_s (those that the job held GPUs that day, warmed up, within the time of the samples),
    known_time (the end of what was observed).
    """
    join_settings = settings or JoinSettings()
    names, gpu = _shared_names(samples, allocations)
    time_us = _microseconds(samples, "time")
    order = np.lexsort((time_us, gpu)) if not _is_sorted(gpu, time_us) else None
    if order is not None:
        samples, gpu, time_us = samples.take(pa.array(order)), gpu[order], time_us[order]
    interval_s = join_settings.interval_s or _interval_s(gpu, time_us)
    step_us = round(interval_s * 1e6)
    runs = _runs(allocations, names, jobs, round(join_settings.warm_up_s * 1e6))
    segments = _segments(runs)
    at = _segment_of(segments, gpu, time_us)
    inside = at >= 0
    holders = np.where(inside, segments.count[at], 0)
    run = np.where(holders == 1, segments.run[at], -1)
    means = {name: _floats(samples, name) for name in MEANS}
    memory = _floats(samples, "gpu_mem_mib")
    repeated = np.append(False, (np.diff(gpu) == 0) & (np.diff(time_us) == 0))[: len(gpu)]
    silent = np.isnan(memory) & np.all([np.isnan(values) for values in means.values()], axis=0)
    warm = (run >= 0) & (time_us < np.append(runs.warm, 0)[run])
    fate = np.select(
        [repeated, silent, ~np.isin(gpu, runs.gpu), holders == 0, holders > 1, warm],
        [_FATES.index(name) for name in ("repeated", "silent", "outside", "idle", "shared", "warm_up")],
        default=_FATES.index("joined"),
    )
    counts = np.bincount(fate, minlength=len(_FATES)).tolist()
    report = JoinReport(samples=len(gpu), interval_s=interval_s, **dict(zip(_FATES, counts, strict=True)))
    report.check()
    rows = np.flatnonzero(fate == _FATES.index("joined"))
    hold_us = round(join_settings.hold_intervals * step_us)
    latest = np.minimum(segments.end[at[rows]], (time_us[rows] // DAY_US + 1) * DAY_US)

    def held_until(left_out: NDArray[np.bool_]) -> Ints:
        return np.minimum(_held_until(gpu, time_us, left_out, hold_us, step_us)[rows], latest)

    seen = _Seen(
        run[rows],
        time_us[rows],
        held_until(repeated),
        {name: (values[rows], held_until(repeated | np.isnan(values))) for name, values in means.items()},
        memory[rows],
    )
    window = (int(time_us.min()), int(time_us.max()) + step_us) if len(gpu) else (0, 0)
    return _by_job_and_day(seen, runs, window), report


def scrape_interval_s(samples: pa.Table) -> float:
    """The median distance of a GPU's samples (SAMPLE_SCHEMA, by GPU and time), s; 1 where there is none."""
    gpu = samples.column("gpu_uuid").combine_chunks().indices.to_numpy().astype(np.int64)
    return _interval_s(gpu, _microseconds(samples, "time"))


def _interval_s(gpu: Ints, time_us: Ints) -> float:
    steps = np.diff(time_us)[(np.diff(gpu) == 0) & (np.diff(time_us) > 0)]
    return float(np.median(steps)) / 1e6 if len(steps) else 1.0


# Holders of GPUs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Runs:
    """Times at which one job held one GPU without a break: its allocations of it that touch are one."""

    gpu: Ints
    owner: Ints  # of `owners`
    start: Ints
    warm: Ints  # from when on it counts
    end: Ints
    owners: pd.DataFrame  # job_id, submit_time


def _runs(allocations: pa.Table, gpus: pd.Index, jobs: pd.DataFrame, warm_up_us: int) -> _Runs:
    frame = pd.DataFrame(
        {
            "job_id": allocations.column("job_id").to_pandas().astype(object),
            "gpu": gpus.get_indexer(allocations.column("gpu_uuid").to_pandas().astype(object)),
            "start": _microseconds(allocations, "start_time"),
            "end": allocations.column("end_time").cast(pa.int64()).fill_null(_FOREVER).to_numpy(),
        }
    )
    frame["submit_time"] = _submit_times(frame, jobs)
    by_owner = frame.groupby(["job_id", "submit_time"], sort=True, dropna=False)
    frame["owner"] = by_owner.ngroup()
    owners = by_owner.size().index.to_frame(index=False)
    frame = frame.sort_values(["owner", "gpu", "start"], kind="stable", ignore_index=True)
    latest = frame.groupby(["owner", "gpu"], sort=False)["end"].cummax()
    same = (frame["owner"].diff() == 0) & (frame["gpu"].diff() == 0)
    fresh = ~(same & (frame["start"] <= latest.shift(fill_value=0)))
    merged = (
        frame.assign(end=latest)
        .groupby(fresh.cumsum(), sort=False)
        .agg(gpu=("gpu", "first"), owner=("owner", "first"), start=("start", "first"), end=("end", "last"))
    )
    merged = merged[merged["end"] > merged["start"]]
    gpu, owner, start, end = (
        merged[name].to_numpy(dtype=np.int64) for name in ("gpu", "owner", "start", "end")
    )
    return _Runs(gpu, owner, start, start + warm_up_us, end, owners)


def _submit_times(runs: pd.DataFrame, jobs: pd.DataFrame) -> "pd.Series[pd.Timestamp]":
    """When the job of each run was submitted: the last submission of its id before it, else the first."""
    submitted = pd.DataFrame(
        {
            "job_id": jobs["job_id"].astype(object),
            "submit_time": pd.to_datetime(jobs["submit_time"], utc=True).astype("datetime64[us, UTC]"),
        }
    ).sort_values("submit_time", kind="stable")
    unmatched = pd.DataFrame(
        {
            "job_id": runs["job_id"],
            "at": pd.to_datetime(runs["start"], unit="us", utc=True),
            "row": runs.index,
        }
    )
    unmatched["at"] = unmatched["at"].astype("datetime64[us, UTC]")
    matched = pd.merge_asof(
        unmatched.sort_values("at", kind="stable"),
        submitted,
        left_on="at",
        right_on="submit_time",
        by="job_id",
    )
    submit = matched.set_index("row")["submit_time"].reindex(runs.index)
    first = submitted.drop_duplicates("job_id").set_index("job_id")["submit_time"]
    return submit.fillna(runs["job_id"].map(first))


@dataclass(frozen=True)
class _Segments:
    """A GPU's time cut wherever a run begins or ends: how many hold it, and which, where it is one.

    The last one, which no sample points at by a number of 0 or more, stands for "before any".
    """

    gpu: Ints
    start: Ints
    end: Ints
    count: Ints
    run: Ints


def _segments(runs: _Runs) -> _Segments:
    numbers = np.arange(len(runs.gpu))
    gpu = np.concatenate([runs.gpu, runs.gpu])
    when = np.concatenate([runs.start, runs.end])
    order = np.lexsort((when, gpu))
    gpu, when = gpu[order], when[order]
    # Where exactly one run is open, the sum of the open runs' numbers is its number.
    count = np.cumsum(np.repeat([1, -1], len(numbers))[order])
    run = np.cumsum(np.concatenate([numbers, -numbers])[order])
    last = np.append((np.diff(gpu) != 0) | (np.diff(when) != 0), True)[: len(gpu)]
    gpu, when, count, run = gpu[last], when[last], count[last], run[last]
    end = np.where(
        np.append(np.diff(gpu) == 0, False)[: len(gpu)], np.append(when[1:], 0)[: len(gpu)], _FOREVER
    )
    nowhere = np.array([-1]), np.array([0]), np.array([0]), np.array([0]), np.array([-1])
    columns = zip((gpu, when, end, count, run), nowhere, strict=True)
    return _Segments(*(np.append(column, more).astype(np.int64) for column, more in columns))


def _segment_of(segments: _Segments, gpu: Ints, time_us: Ints) -> Ints:
    """For each sample (by GPU and time) the number of the segment that it lies in; -1: before any."""
    at = np.full(len(gpu), -1, dtype=np.int64)
    held = segments.gpu[:-1]
    for number in np.unique(gpu):
        first, last = np.searchsorted(gpu, [number, number + 1])
        begin, stop = np.searchsorted(held, [number, number + 1])
        positions = np.searchsorted(segments.start[begin:stop], time_us[first:last], side="right") - 1
        at[first:last] = np.where(positions >= 0, begin + positions, -1)
    return at


# What the samples say ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Seen:
    """The joined samples, and until when each holds; `means` with until when their own figures do."""

    run: Ints
    time_us: Ints
    until: Ints
    means: dict[str, tuple[Floats, Ints]]
    memory: Floats


def _held_until(gpu: Ints, time_us: Ints, left_out: NDArray[np.bool_], hold_us: int, step_us: int) -> Ints:
    """Until when each sample holds: the GPU's next one, where it comes soon enough, else `hold_us` on.

    Those that are left out end none.
    """
    until = time_us + step_us  # the last of a GPU
    first = np.flatnonzero(~left_out)
    following = np.diff(time_us[first])
    same = np.diff(gpu[first]) == 0
    until[first[:-1][same]] = time_us[first[:-1][same]] + np.minimum(following[same], hold_us)
    return until


def _by_job_and_day(seen: _Seen, runs: _Runs, window: tuple[int, int]) -> pd.DataFrame:
    days = 1_000_000  # more than there are
    keys = runs.owner[seen.run] * days + seen.time_us // DAY_US
    group_keys, group = np.unique(keys, return_inverse=True)
    size = len(group_keys)
    held_s = (seen.until - seen.time_us) / 1e6
    columns: dict[str, Any] = {}
    for name, (values, until) in seen.means.items():
        has_value = ~np.isnan(values)
        lasted_s = ((until - seen.time_us) / 1e6)[has_value]
        weight = np.bincount(group[has_value], lasted_s, size)
        total = np.bincount(group[has_value], lasted_s * values[has_value], size)
        columns[name] = np.divide(total, weight, out=np.full(size, np.nan), where=weight > 0)
    most = np.full(size, -np.inf)
    np.maximum.at(most, group, np.where(np.isnan(seen.memory), -np.inf, seen.memory))
    columns["gpu_mem_mib"] = np.where(np.isneginf(most), np.nan, most)
    pairs = np.unique(np.stack([group, runs.gpu[seen.run]], axis=1), axis=0)
    columns["gpus_seen"] = np.bincount(pairs[:, 0], minlength=size)
    columns["samples"] = np.bincount(group, minlength=size)
    columns["observed_gpu_s"] = np.bincount(group, held_s, size)
    columns["expected_gpu_s"] = _expected_s(runs, window, group_keys, days)
    known_us = np.zeros(size, dtype=np.int64)
    np.maximum.at(known_us, group, seen.until)
    columns["known_time"] = pd.to_datetime(known_us, unit="us", utc=True).as_unit("us")
    owners: pd.DataFrame = runs.owners.iloc[group_keys // days].reset_index(drop=True)
    return owners.assign(**columns)


def _expected_s(runs: _Runs, window: tuple[int, int], keys: Ints, days: int) -> Floats:
    """GPU-seconds of each owner and day (`keys`) that warm runs lasted within the window."""
    start, end = np.maximum(runs.warm, window[0]), np.minimum(runs.end, window[1])
    lasts = end > start
    start, end, owner = start[lasts], end[lasts], runs.owner[lasts]
    spans = (end - 1) // DAY_US - start // DAY_US + 1
    row = np.repeat(np.arange(len(start)), spans)
    day = start[row] // DAY_US + np.arange(len(row)) - np.repeat(np.cumsum(spans) - spans, spans)
    lasted = np.minimum(end[row], (day + 1) * DAY_US) - np.maximum(start[row], day * DAY_US)
    at = np.searchsorted(keys, owner[row] * days + day)
    there = at < len(keys)
    there[there] = keys[at[there]] == (owner[row] * days + day)[there]
    expected_s: Floats = np.bincount(at[there], lasted[there] / 1e6, len(keys)).astype(np.float64)
    return expected_s


# Columns -----------------------------------------------------------------------------------------------


def _shared_names(samples: pa.Table, allocations: pa.Table) -> tuple[pd.Index, Ints]:
    """All GPUs by name, and each sample's by number."""
    column = samples.column("gpu_uuid").combine_chunks()
    listed = [str(name) for name in column.dictionary.to_pylist()]
    held = pc.unique(allocations.column("gpu_uuid")).to_pylist()
    names = pd.Index(sorted({*listed, *map(str, held)}), dtype=object)
    codes = names.get_indexer(pd.Index(listed, dtype=object))
    return names, codes[column.indices.to_numpy()].astype(np.int64)


def _is_sorted(gpu: Ints, time_us: Ints) -> bool:
    steps = np.diff(gpu)
    return bool(np.all((steps > 0) | ((steps == 0) & (np.diff(time_us) >= 0))))


def _microseconds(table: pa.Table, column: str) -> Ints:
    return np.asarray(table.column(column).cast(pa.int64()).to_numpy(), dtype=np.int64)


def _floats(table: pa.Table, column: str) -> Floats:
    return np.asarray(table.column(column).to_numpy(zero_copy_only=False), dtype=np.float64)
