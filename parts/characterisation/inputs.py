"""Where a characterised log comes from: the lake, or files; cut to its window, and its replay graded."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs.ingest import read_jobs_file, read_throughput_file
from cluster_logs.job_table import JOB_SCHEMA, to_frame
from cluster_logs.lake import Lake
from cluster_logs.lake_files import unchanged
from cluster_logs.log_statistics.capacity import Capacity, FloatArray, capacity_of
from cluster_logs.log_statistics.observed_log import (
    DAY_S,
    JOB_COLUMNS,
    ObservedLog,
    OccupancySamples,
    UtilisationRule,
    Window,
    as_columns,
    running_in,
)
from cluster_logs.node_series import read_node_sequence, read_node_series
from cluster_logs.readers.base import load_reader
from cluster_logs.readers.gpu_sequence import is_gpu_sequence, read_gpu_sequence
from cluster_logs.readers.nodes_over_time import read_nodes_over_time
from cluster_logs.readers.source import load_zone
from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, silent
from foundation.site import Site
from pipeline.replay.cluster_events import ClusterSize, lake_sizes
from pipeline.replay.log_file import LogFile
from pipeline.replay.site_grade import grade_cluster, grade_log
from simulator.wait_fidelity.grade import WaitGrade, not_graded

_LONGEST_DAYS = 7_320
GRADED_DAYS = 28  # a replay of years would take longer than the characterisation
_CATEGORIES = ("virtual_cluster", "user", "state")


@dataclass(frozen=True)
class LogFiles:
    """A log in files: jobs (or published throughput), the nodes of each virtual cluster, samples of what was
    in use and of what waited. Without jobs the samples are all there is.
    """

    jobs: str | None = None
    source_format: str | None = None
    nodes: str | None = None
    sequence: str | None = None
    waiting_sequence: str | None = None
    gpus_per_node: int = 8


@dataclass(frozen=True)
class View:
    """How a log is looked at: submissions in [start, end) (naive: on the clock of `time_zone`, by default
    the format's, in the lake UTC), and by which rule utilisation is counted.
    """

    start: datetime | None = None
    end: datetime | None = None
    time_zone: str | None = None
    rule: UtilisationRule = UtilisationRule.HALF_OPEN


def read_lake_log(site: Site, view: View) -> ObservedLog:
    """A cluster of the lake: its jobs, or its published throughput where it has no jobs.

    Where no job says when it started, utilisation is that of the counted nodes, if the lake has any.
    Raises NotFoundError when the lake has neither.
    """
    lake, zone = Lake(site.lake), load_zone(view.time_zone or "UTC")
    site.progress(0, 2, "reading the lake")
    jobs, bins = _no_jobs(), None
    if site.cluster in lake.clusters("throughput") and site.cluster not in lake.clusters("jobs"):
        bins = _as_bins(lake.read_throughput(site.cluster))
    else:
        jobs = unchanged(lambda: _compact(lake.iter_jobs(site.cluster, columns=list(JOB_COLUMNS))))
    site.progress(1, 2, "reading the lake")
    samples, notes = (None, ()) if jobs["start_s"].notna().any() else _counted_nodes(lake, site.cluster)
    window = _window(jobs, bins, samples, zone, view)
    sizes = _lake_capacity(site, window)
    return _cut(site.cluster, window, jobs, bins, samples, sizes, view, notes)


def read_log_files(files: LogFiles, view: View, progress: Progress = silent) -> ObservedLog:
    """A log in files. Raises BadInputError for files that cannot be used or do not go together."""
    if files.jobs is None and files.sequence is None:
        raise BadInputError(
            "There is nothing to characterise.", remedy="Give --cluster, --jobs or --sequence."
        )
    if files.jobs is not None and files.source_format is None:
        raise BadInputError("--jobs needs its format.", remedy="Give it with --format.")
    reader = None if files.source_format is None else load_reader(files.source_format)
    zone = load_zone(
        reader.clock(files.jobs, view.time_zone) if reader and files.jobs else view.time_zone or "UTC"
    )
    jobs, bins, notes = _no_jobs(), None, []
    if files.jobs is not None and reader is not None:
        if reader.table == "throughput":
            bins = _as_bins(
                read_throughput_file(files.jobs, source_format=reader.name, time_zone=view.time_zone)
            )
        else:
            frame, account = read_jobs_file(
                files.jobs, reader.name, time_zone=view.time_zone, columns=JOB_COLUMNS, progress=progress
            )
            jobs = as_columns(frame)
            notes = [f"{count:,} rows left out: {name}" for name, count in sorted(account.reasons.items())]
    samples = _read_samples(files, zone)
    if samples is not None:
        notes.append(f"utilisation is that of {samples.unit}, as they were sampled")
    window = _window(jobs, bins, samples, zone, view)
    sizes = _as_capacity(files, zone)
    return _cut(_name_of(files), window, jobs, bins, samples, sizes, view, tuple(notes))


def _cut(
    cluster: str,
    window: Window,
    jobs: pd.DataFrame,
    bins: pd.DataFrame | None,
    samples: OccupancySamples | None,
    sizes: Capacity | None,
    view: View,
    notes: tuple[str, ...] = (),
) -> ObservedLog:
    inside = jobs[(jobs["submit_s"] >= window.start_s) & (jobs["submit_s"] < window.end_s)].copy()
    for name in _CATEGORIES:
        inside[name] = inside[name].cat.remove_unused_categories()
    if bins is not None:
        bins = bins[(bins["time_s"] >= window.start_s) & (bins["time_s"] < window.end_s)]
    if samples is not None:
        samples = samples.within(window.start_s, window.end_s)
    return ObservedLog(
        cluster=cluster,
        window=window,
        jobs=inside,
        running=running_in(jobs, window),
        capacity=sizes,
        bins=bins,
        samples=samples,
        rule=view.rule,
        notes=notes,
    )


def _window(
    jobs: pd.DataFrame,
    bins: pd.DataFrame | None,
    samples: OccupancySamples | None,
    zone: ZoneInfo,
    view: View,
) -> Window:
    """The jobs say where a log begins and ends; without any its bins, or its samples."""
    instants: FloatArray = jobs["submit_s"].to_numpy()
    if bins is not None:
        instants = bins["time_s"].to_numpy()
    elif not len(instants) and samples is not None:
        instants = samples.times_s
    return find_window(instants, zone, view.start, view.end)


def _compact(tables: Iterable[pa.Table]) -> pd.DataFrame:
    """Job tables as plain columns, day by day: texts are codes before they are many."""
    parts = [as_columns(to_frame(table)) for table in tables if table.num_rows]
    if not parts:
        return _no_jobs()
    joined = {
        name: pd.api.types.union_categoricals([part[name] for part in parts], sort_categories=True)
        for name in _CATEGORIES
    }
    rest = pd.concat([part.drop(columns=list(_CATEGORIES)) for part in parts], ignore_index=True)
    return rest.assign(**{name: pd.Series(values) for name, values in joined.items()})


def _no_jobs() -> pd.DataFrame:
    schema = pa.schema([JOB_SCHEMA.field(name) for name in JOB_COLUMNS])
    return as_columns(to_frame(schema.empty_table()))


def _as_bins(throughput: pd.DataFrame) -> pd.DataFrame:
    seconds = throughput["bin_start"].dt.tz_convert(None).to_numpy(dtype="datetime64[us]").astype(np.int64)
    columns = {"gpu_jobs": "submitted_gpu_jobs", "gpus": "submitted_gpus"}
    counts = {name: throughput[column].to_numpy() for name, column in columns.items()}
    return pd.DataFrame({"time_s": seconds / 1e6, **counts})


def _lake_capacity(site: Site, window: Window) -> Capacity | None:
    first = datetime.fromtimestamp(window.start_s, window.zone)
    try:
        return _capacity(lake_sizes(site, first, window.zone))
    except NotFoundError:
        return None


def _as_capacity(files: LogFiles, zone: ZoneInfo) -> Capacity | None:
    if files.nodes is None:
        return None
    return _capacity(read_nodes_over_time(files.nodes, gpus_per_node=files.gpus_per_node, time_zone=zone.key))


def _capacity(sizes: pd.DataFrame) -> Capacity | None:
    since = sizes["from_time"].dt.tz_convert(None).to_numpy(dtype="datetime64[us]")
    from_s = np.where(np.isnat(since), -np.inf, since.astype(np.int64) / 1e6)
    return capacity_of(sizes.assign(from_s=from_s))


def _read_samples(files: LogFiles, zone: ZoneInfo) -> OccupancySamples | None:
    if files.sequence is None:
        return None
    if is_gpu_sequence(files.sequence):
        counts = read_gpu_sequence(files.sequence, zone.key)
        waiting = None
        if files.waiting_sequence is not None:
            waiting = read_gpu_sequence(files.waiting_sequence, zone.key).reindex(counts.index)
        busy = counts.sum(axis=1).to_numpy(dtype=np.float64)
        return OccupancySamples(counts.index.to_numpy(dtype=np.float64), busy, None, "GPUs", counts, waiting)
    rows = read_node_sequence(files.sequence, zone.key).to_pandas()
    seconds = rows["time"].dt.tz_convert(None).to_numpy(dtype="datetime64[us]").astype(np.int64) / 1e6
    summed = rows[["busy", "total"]].groupby(seconds).sum()
    busy, total = (summed[name].to_numpy(dtype=np.float64) for name in ("busy", "total"))
    return OccupancySamples(summed.index.to_numpy(dtype=np.float64), busy, total, "nodes")


def _counted_nodes(lake: Lake, cluster: str) -> tuple[OccupancySamples | None, tuple[str, ...]]:
    """The nodes in use as they were counted, gaps left out, and what must be said of them."""
    try:
        nodes = read_node_series(lake.read_node_states(cluster))
    except NotFoundError:
        return None, ()
    counted = ~nodes.held
    samples = OccupancySamples(nodes.times_s[counted], nodes.running[counted], nodes.total[counted], "nodes")
    return samples, ("utilisation is that of nodes, as they were counted",)


def _name_of(files: LogFiles) -> str:
    source = files.jobs or files.sequence or ""
    return source.replace("\\", "/").rstrip("/").rpartition("/")[2] or source


def find_window(
    seconds: FloatArray, zone: ZoneInfo, start: datetime | None = None, end: datetime | None = None
) -> Window:
    """The window [start, end) where asked (naive: on the log's clock), else the whole days that hold the
    given instants.

    Raises BadInputError for a window that ends before it starts, or of more than twenty years.
    """
    first, last = (float(seconds.min()), float(seconds.max())) if len(seconds) else (0.0, 0.0)
    start_s = _midnight_s(first, zone, 0) if start is None else _instant_s(start, zone)
    end_s = _midnight_s(last, zone, 1) if end is None else _instant_s(end, zone)
    if end_s <= start_s:
        raise BadInputError(
            f"The window ends ({_said(end_s)}) before it starts ({_said(start_s)}).",
            remedy="Choose one inside the log.",
        )
    if end_s - start_s > _LONGEST_DAYS * DAY_S:
        raise BadInputError(
            f"The log covers {(end_s - start_s) / DAY_S:,.0f} days, from {_said(start_s)} to {_said(end_s)}.",
            remedy="Choose a part of it with --start and --end.",
        )
    return Window(start_s, end_s, zone)


def _instant_s(when: datetime, zone: ZoneInfo) -> float:
    return (when if when.tzinfo else when.replace(tzinfo=zone)).timestamp()


def _midnight_s(second: float, zone: ZoneInfo, days_later: int) -> float:
    local = pd.Timestamp(int(second // 1), unit="s", tz="UTC").tz_convert(zone).tz_localize(None).normalize()
    midnight = (local + pd.Timedelta(days=days_later)).tz_localize(
        zone, ambiguous=True, nonexistent="shift_forward"
    )
    return float(midnight.timestamp())


def _said(second: float) -> str:
    return f"{pd.Timestamp(int(second), unit='s'):%Y-%m-%d %H:%M} UTC"


def grade_of_cluster(site: Site, log: ObservedLog) -> WaitGrade | None:
    """Grade the last GRADED_DAYS of what is looked at of a cluster in the lake; None without jobs."""
    if not len(log.jobs):
        return None
    start, end = _last_days(log)
    try:
        return grade_cluster(site, start, end)
    except (NotFoundError, BadInputError) as error:
        return not_graded(str(error))


def grade_of_files(
    files: LogFiles, view: View, log: ObservedLog, progress: Progress = silent
) -> WaitGrade | None:
    """Grade the same of a log file; None without jobs."""
    if files.jobs is None or files.source_format is None or not len(log.jobs):
        return None
    if files.nodes is None:
        return not_graded("the nodes are not given (`--nodes`).")
    start, end = _last_days(log)
    try:
        return grade_log(
            LogFile(files.jobs, files.source_format, start, end, view.time_zone),
            ClusterSize(files.nodes, gpus_per_node=files.gpus_per_node),
            progress=progress,
        )
    except BadInputError as error:
        return not_graded(str(error))


def _last_days(log: ObservedLog) -> tuple[datetime, datetime]:
    start, end = (datetime.fromtimestamp(at_s, UTC) for at_s in (log.window.start_s, log.window.end_s))
    return max(start, end - timedelta(days=GRADED_DAYS)), end
