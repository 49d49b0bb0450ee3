"""What the models learn from: tables of the lake cut at the end of the training window, with their
digests.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise

import numpy as np
import pandas as pd

from cluster_logs.busy_days import BusyDays
from cluster_logs.cluster_writes import LogOrigin
from cluster_logs.job_table import FINISHED_STATES, LONGEST_SILENCE_S, to_digest
from cluster_logs.lake import Lake
from foundation.errors import BadInputError
from lucid_models.duration.model import MIN_JOBS
from lucid_models.known_profiles import with_known_profiles
from lucid_models.throughput.model import MIN_HISTORY_S
from lucid_models.tracking_run import LoggedDataset

SHORTEST_TAIL = timedelta(days=1)
LONGEST_TAIL = timedelta(days=14)
TAIL_SHARE = 0.2
# Of each series beside jobs: what it holds in words, and how it is read.
SERIES: Mapping[str, tuple[str, Callable[..., pd.DataFrame]]] = {
    "node_states": ("counts of nodes", Lake.read_node_states),
}
# The tail of days that hold fewer jobs, or less than a fiftieth of all, reaches back to so many.
_LEAST_TAIL_JOBS = 20
# So many whole days in a row without a job are a pause.
PAUSE_DAYS = 3
# Days of a lake that are read first when only the newest jobs are wanted.
_FIRST_DAYS = 64


class TooLittleDataError(BadInputError):
    """A model that a release may do without has too little to learn from."""


@dataclass(frozen=True)
class TrainingTable:
    """A table up to `until`, and from when on the validation tail begins.

    `remarks`: sentences on rows that nothing is learned from.
    """

    table: pd.DataFrame
    start: datetime
    until: datetime
    tail_start: datetime
    synthetic: bool
    dataset: LoggedDataset
    remarks: tuple[str, ...] = ()

    @property
    def tail_days(self) -> float:
        """Length of the validation tail."""
        return (self.until - self.tail_start) / timedelta(days=1)


def read_training_jobs(
    lake_uri: str, cluster: str, train_until: datetime | None, *, max_jobs: int
) -> TrainingTable:
    """Jobs submitted before `train_until` (default: after the last one), at most the `max_jobs` newest.

    Jobs that never ran (run time zero) teach nothing about run times and are left out; jobs still running
    stay. What the lake's metrics say of a job by its submission stands in its profile columns. After a
    silence of more than a year only the `newest_stretch` is learned from. Raises NotFoundError when the lake
    has none of the cluster, BadInputError when none is left.
    """
    until = None if train_until is None else _utc(train_until)
    lake = Lake(lake_uri)
    table = _newest_jobs(lake, cluster, until, max_jobs)
    if table.empty:
        raise BadInputError(
            f"Cluster {cluster!r} has no job with a run time before {until}.",
            remedy="Ingest more of the log, or train until a later time.",
        )
    stretch = newest_stretch(table["submit_time"], 2 * MIN_JOBS, "jobs")
    table = table.iloc[stretch.rows].reset_index(drop=True)
    table = with_known_profiles(table, lake.read_job_metrics(cluster, until))
    first, last = (_instant(table["submit_time"].iloc[position]) for position in (0, -1))
    end = (until if stretch.is_newest else None) or last + timedelta(microseconds=1)
    dataset = _dataset(table, f"{cluster}-jobs", f"{lake_uri}/jobs/cluster={cluster}", first, end)
    synthetic = _any_synthetic(lake, cluster)
    fewest = min(max(_LEAST_TAIL_JOBS, len(table) // 50), len(table))
    tail_start = min(
        _tail_start(first, end, table["submit_time"]), _instant(table["submit_time"].iloc[-fewest])
    )
    return TrainingTable(table, first, end, tail_start, synthetic, dataset, stretch.remarks)


def _newest_jobs(lake: Lake, cluster: str, until: datetime | None, most: int) -> pd.DataFrame:
    """At most `most` jobs that ran, the newest before `until` as known then.

    Days are read from the newest back, so that memory goes with `most` and not with the lake.
    """
    days = [day for day in lake.dates(cluster) if until is None or day <= until.date()]
    span = _FIRST_DAYS
    while True:
        start = datetime.combine(days[-span], time(), UTC) if span < len(days) else None
        table = lake.read_jobs(cluster, start, until)
        if until is not None:
            table = as_known_at(table, until)
        table = without_those_that_never_ran(table)
        if start is None or len(table) >= most:
            return table.iloc[-most:].reset_index(drop=True)
        span *= 4


def read_training_throughput(lake_uri: str, cluster: str, train_until: datetime | None) -> TrainingTable:
    """Throughput bins that had ended by `train_until`; errors as in `read_training_jobs`."""
    lake = Lake(lake_uri)
    until = None if train_until is None else _utc(train_until)
    table = lake.read_throughput(cluster, None, until)
    lengths = pd.to_timedelta(table["bin_s"], unit="s")
    if until is not None:
        # The bin that the window cuts through counts jobs which arrive after it.
        whole = table["bin_start"] + lengths <= until
        table, lengths = table[whole].reset_index(drop=True), lengths[whole]
    if table.empty:
        raise BadInputError(
            f"Cluster {cluster!r} has no throughput before {until}.",
            remedy="Ingest more of the log, or train until a later time.",
        )
    least = (MIN_HISTORY_S + SHORTEST_TAIL // timedelta(seconds=1)) // int(lengths.dt.total_seconds().iloc[0])
    stretch = newest_stretch(table["bin_start"], least, "bins")
    table, lengths = table.iloc[stretch.rows].reset_index(drop=True), lengths.iloc[stretch.rows]
    table, lengths, paused = _without_pauses(table, lengths)
    first = _instant(table["bin_start"].iloc[0])
    end = (until if stretch.is_newest else None) or _instant(table["bin_start"].iloc[-1] + lengths.iloc[-1])
    source = f"{lake_uri}/throughput/cluster={cluster}"
    dataset = _dataset(table, f"{cluster}-throughput", source, first, end)
    synthetic = _any_synthetic(lake, cluster)
    tail_start = _tail_start(first, end, table["bin_start"])
    remarks = (*stretch.remarks, *paused)
    return TrainingTable(table, first, end, tail_start, synthetic, dataset, remarks)


def _without_pauses(
    table: pd.DataFrame, lengths: "pd.Series[pd.Timedelta]"
) -> "tuple[pd.DataFrame, pd.Series[pd.Timedelta], tuple[str, ...]]":
    """The bins without those of PAUSE_DAYS or more whole days (UTC) in a row in which nothing was submitted:
    the cluster was shut, or a single job lies far from the others. They are unknown then, and say nothing of
    the days to come.
    """
    day = table["bin_start"].dt.tz_convert("UTC").dt.floor("D")
    per_day = table["submitted_jobs"].groupby(day).sum()
    is_empty = per_day == 0
    run = (is_empty != is_empty.shift()).cumsum()
    paused = is_empty & (is_empty.groupby(run).transform("size") >= PAUSE_DAYS)
    if not paused.any() or is_empty.all():  # of no job at all nothing is learned but that
        return table, lengths, ()
    kept = ~day.isin(per_day.index[paused])
    first = per_day.index[paused][0]
    remark = (
        f"Nothing is learned from {int(paused.sum()):,} days of pauses in which no job was submitted, the "
        f"first from {first:%Y-%m-%d} on."
    )
    return table[kept].reset_index(drop=True), lengths[kept], (remark,)


def read_training_series(
    lake_uri: str, cluster: str, train_until: datetime | None, name: str
) -> TrainingTable:
    """Rows of the table `name` (of SERIES, or of a part) with times before `train_until` (default: up to the
    last); errors as in `read_training_jobs`.
    """
    lake = Lake(lake_uri)
    until = None if train_until is None else _utc(train_until)
    if name in SERIES:
        words, read = SERIES[name]
        table = read(lake, cluster, None, until)
    else:
        words, table = name.replace("_", " "), lake.read_series(name, cluster, None, until)
    if table.empty:
        raise BadInputError(
            f"Cluster {cluster!r} has no {words} before {until}.",
            remedy=f"Ingest more {words}, or train until a later time.",
        )
    first, last = (_instant(table["time"].iloc[position]) for position in (0, -1))
    end = until or last + timedelta(microseconds=1)
    source = f"{lake_uri}/{name}/cluster={cluster}"
    dataset = _dataset(table, f"{cluster}-{name.replace('_', '-')}", source, first, end)
    return TrainingTable(table, first, end, _tail_start(first, end), _any_synthetic(lake, cluster), dataset)


def profile_dataset(solo: pd.DataFrame, pairs: pd.DataFrame) -> LoggedDataset:
    """Solo and pair profiles as one data set."""
    digest = hashlib.sha256((table_digest(solo) + table_digest(pairs)).encode()).hexdigest()
    devices = sorted({str(device) for device in solo.get("device", pd.Series(dtype=str)).dropna().unique()})
    return LoggedDataset(
        "profiles",
        f"profiles of {', '.join(devices) or 'an unnamed device'}",
        digest,
        len(solo) + len(pairs),
        {**_columns(solo), **_columns(pairs)},
    )


def table_digest(table: pd.DataFrame) -> str:
    """SHA-256 of a table's column names and rows in their order, 64 hexadecimal digits."""
    digest = hashlib.sha256("\x1f".join(map(str, table.columns)).encode())
    digest.update(str(len(table)).encode())
    for name in table.columns:
        digest.update(pd.util.hash_pandas_object(table[name], index=False).to_numpy().tobytes())
    return digest.hexdigest()


def _dataset(table: pd.DataFrame, name: str, source: str, start: datetime, end: datetime) -> LoggedDataset:
    return LoggedDataset(
        name,
        source,
        table_digest(to_digest(table)),
        len(table),
        _columns(table),
        start.isoformat(),
        end.isoformat(),
    )


def _columns(table: pd.DataFrame) -> Mapping[str, str]:
    kinds = {"i": "long", "u": "long", "f": "double", "b": "boolean", "M": "datetime"}
    return {str(name): kinds.get(table[name].dtype.kind, "string") for name in table.columns}


def _any_synthetic(lake: Lake, cluster: str) -> bool:
    """Whether any of the cluster's rows is synthetic, also of those that are not in the window."""
    return lake.writes.logs(cluster) is LogOrigin.SYNTHETIC


def without_those_that_never_ran(jobs: pd.DataFrame) -> pd.DataFrame:
    """The jobs that ran, run or may still: not those of zero run time, nor those that ended without one."""
    finished = jobs["state"].isin([str(state) for state in FINISHED_STATES])
    no_time = (jobs["duration_s"] <= 0).fillna(False).astype(bool)
    return jobs[~(no_time | (jobs["duration_s"].isna() & finished))]


def as_known_at(jobs: pd.DataFrame, moment: datetime) -> pd.DataFrame:
    """The jobs as a log read at `moment` shows them: what started or ended later has not yet.

    Without an end time the end is taken to be submit_time + duration_s, as everywhere in duration.
    """
    result = jobs.copy()
    run_time = pd.to_timedelta(result["duration_s"], unit="s")
    ended = result["end_time"].fillna(result["start_time"].fillna(result["submit_time"]) + run_time)
    later = ended > moment
    for column in ("end_time", "duration_s", "service_s", "state", "source_state"):
        result.loc[later, column] = None
    waiting = result["start_time"] > moment
    for column in ("start_time", "queuing_delay_s"):
        result.loc[waiting, column] = None
    if "eligible_time" in result and result["eligible_time"].notna().any():
        result.loc[result["eligible_time"] > moment, "eligible_time"] = None
    return result


def _tail_start(start: datetime, until: datetime, times: "pd.Series[pd.Timestamp] | None" = None) -> datetime:
    """A fifth of the window, within one day and two weeks: long enough to judge, short enough to learn
    from.

    `times` of rows: days without any do not count.
    """
    days = BusyDays([] if times is None else times.dt.tz_convert("UTC").dt.date.unique())
    tail = max(SHORTEST_TAIL, min(LONGEST_TAIL, timedelta(days=days.between(start, until)) * TAIL_SHARE))
    return days.before(until, tail / timedelta(days=1))


def _instant(value: pd.Timestamp) -> datetime:
    moment: datetime = value.to_pydatetime()
    return moment


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


@dataclass(frozen=True)
class LogStretch:
    """Rows of a table, and what is to be said of the others."""

    rows: slice
    remarks: tuple[str, ...] = ()

    @property
    def is_newest(self) -> bool:
        """Whether nothing comes after it."""
        return self.rows.stop is None


def newest_stretch(times: "pd.Series[pd.Timestamp]", least: int, what: str) -> LogStretch:
    """The newest rows without a silence of more than a year among them, of which there are `least`.

    A log that is silent for years is two logs in one, or has a job with a wrong year. Nothing tells what a
    cluster did in between, and what came before says little of what came after.

    `times`: ascending instants, one a row; `what` the rows are called. A log without such a silence is one
    stretch, however short. Raises BadInputError when there are silences and no stretch is long enough.
    """
    silences = np.flatnonzero(times.diff().dt.total_seconds().to_numpy() > LONGEST_SILENCE_S)
    if not silences.size:
        return LogStretch(slice(None))
    edges = [0, *silences.tolist(), len(times)]
    stretches = list(pairwise(edges))
    silence_remark = _silences(times, silences.tolist())
    for first, last in reversed(stretches):
        if last - first >= least:
            here = f"{times.iloc[first]:%Y-%m-%d} to {times.iloc[last - 1]:%Y-%m-%d}"
            remark = f"{silence_remark} Learned from {here}: {last - first:,} of {len(times):,} {what}."
            return LogStretch(slice(first, None if last == len(times) else last), (remark,))
    longest = max(last - first for first, last in stretches)
    raise BadInputError(
        f"{silence_remark} No stretch without such a silence is long enough to learn from: the longest has "
        f"{longest:,} {what}, and {least:,} are needed.",
        remedy="Check the dates beside the silence, and ingest a longer log.",
    )


def _silences(times: "pd.Series[pd.Timestamp]", places: Sequence[int]) -> str:
    first = places[0]
    more = f", and {len(places) - 1} times more" if len(places) > 1 else ""
    before, after = times.iloc[first - 1], times.iloc[first]
    return f"The log is silent for more than a year: from {before:%Y-%m-%d} to {after:%Y-%m-%d}{more}."
