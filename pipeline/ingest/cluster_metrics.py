"""Metrics of production jobs into the lake: read samples, join them to jobs, keep each job's own figures.

What `lucid metrics` and the DAG `ingest_logs` call. A server's range is read a UTC day at a time, so that
months of a large cluster need no more memory than a day.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs

from cluster_logs.lake import Lake
from cluster_logs.log_span import submission_span
from cluster_logs.metrics.allocations import (
    AllocationBatch,
    allocations_from_labels,
    merge_allocations,
    read_allocations,
    read_gpu_map,
)
from cluster_logs.metrics.dcgm import SeriesRules
from cluster_logs.metrics.gpu_samples import SampleBatch, concat_batches
from cluster_logs.metrics.job_metrics import PROFILE, RUNNING, last_known, metrics_of_join
from cluster_logs.metrics.join import JoinReport, JoinSettings, join_samples, scrape_interval_s
from cluster_logs.metrics.metric_files import read_samples_file
from cluster_logs.metrics.prometheus import PrometheusQuery, read_prometheus
from cluster_logs.metrics.scontrol import read_scontrol
from cluster_logs.quarantine import Accounting
from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, Work, silent
from foundation.storage import list_files, locate
from pipeline.ingest.measured_series import RowsReport

JOB_COLUMNS = ("job_id", "submit_time", "user", "name", "job_type")
_FATES = ("samples", "joined", "warm_up", "shared", "idle", "outside", "silent", "repeated")


@dataclass(frozen=True)
class MetricsSource:
    """Where samples and allocations come from.

    Samples: a Prometheus (`prometheus`), or files (a saved response, text, Parquet, the node sampler's
    folder), or both. Allocations: files (CSV, Parquet), or what `scontrol show job -d` wrote with a map of
    GPUs; with neither, the samples' own job labels.
    """

    prometheus: PrometheusQuery | None = None
    files: Sequence[str] = ()
    rules: SeriesRules = field(default_factory=SeriesRules)
    scraped_at: datetime | None = None
    allocations: Sequence[str] = ()
    scontrol: Sequence[str] = ()
    gpu_map: str | None = None

    def __post_init__(self) -> None:
        if self.prometheus is None and not self.files:
            raise BadInputError(
                "No samples are named.", remedy="Give a Prometheus (--prometheus URL) or files (--file)."
            )
        if self.scontrol and not self.gpu_map:
            raise BadInputError(
                "Slurm names GPUs by their index on a node.",
                remedy="Say which GPU that is: --gpu-map FILE, CSV host,index,gpu_uuid, by minor number.",
            )


@dataclass(frozen=True, kw_only=True)
class MetricsReport(RowsReport):
    """What became of the source's rows, of the samples and of the jobs that they speak of."""

    samples: dict[str, int]  # the fates of `join.JoinReport`; they add up to "samples"
    scrape_interval_s: float
    allocations_in: int
    allocations_kept: int
    jobs: int  # that have figures now
    jobs_unknown: int  # that held GPUs and are not in the job table


def ingest_metrics(
    *,
    lake_uri: str,
    cluster: str,
    source: MetricsSource,
    settings: JoinSettings | None = None,
    progress: Progress = silent,
) -> MetricsReport:
    """Join samples to the cluster's jobs and write what each job needed into the table `metrics`.

    The same twice changes nothing. Raises NotFoundError when the lake has no jobs of the cluster.
    """
    join_settings = settings or JoinSettings()
    lake = Lake(lake_uri)
    jobs = lake.read_jobs(cluster, columns=JOB_COLUMNS)
    allocations = _allocations(source)
    account, allocated = Accounting(), _sum(allocations)
    samples: Counter[str] = Counter()
    joined_jobs, changed, interval_s = set[tuple[str, pd.Timestamp]](), 0, float("nan")
    unknown: set[str] = set()
    for one in allocations:
        lake.add_quarantine(cluster, "metrics-allocations", one.refused)
    for batch, origin in _batches(source, progress):
        interval_s = join_settings.interval_s or scrape_interval_s(batch.samples)
        held = merge_allocations([one.allocations for one in allocations])
        if not allocations:
            held = allocations_from_labels(batch.samples, interval_s, join_settings.hold_intervals)
        joined, report = join_samples(
            batch.samples, held, jobs, replace(join_settings, interval_s=interval_s)
        )
        unknown |= set(joined.loc[joined["submit_time"].isna(), "job_id"].astype(str))
        rows = metrics_of_join(joined, jobs, origin)
        joined_jobs |= set(zip(rows["job_id"], rows["submit_time"], strict=True))
        samples.update(_fates(report))
        # A batch at a time: reading all of them may take hours, and each is whole on its own.
        with lake.writing(cluster, "an ingest of metrics", ("metrics", "quarantine"), progress=progress):
            changed += lake.write_job_metrics(cluster, rows)
            lake.add_quarantine(cluster, "metrics-samples", batch.refused)
        account.add(batch.accounting)
    account.check("Reading metrics")
    return MetricsReport(
        cluster=cluster,
        **account.totals(),
        reasons=dict(sorted((account.quarantined + account.skipped + _reasons(allocated)).items())),
        samples={name: samples[name] for name in _FATES},
        scrape_interval_s=interval_s,
        allocations_in=allocated.rows_in,
        allocations_kept=allocated.kept,
        jobs=len(joined_jobs),
        jobs_unknown=len(unknown),
        files_changed=changed,
        tables=(lake.table_uri("metrics", cluster),),
    )


def ingest_recorded(
    *,
    lake_uri: str,
    cluster: str,
    prometheus_url: str | None,
    files: Sequence[str] = (),
    allocations: Sequence[str] = (),
    start: datetime | None = None,
    end: datetime | None = None,
    progress: Progress = silent,
) -> MetricsReport:
    """As `ingest_metrics`, of [start, end), default: as long as the lake's jobs ran; what a DAG calls."""
    query = None
    if prometheus_url is not None:
        first, last = submission_span(lake_uri, cluster)
        if end is None:
            ends = Lake(lake_uri).read_jobs(cluster, columns=("end_time",))["end_time"].dropna()
            last = max(last, ends.max().to_pydatetime()) if len(ends) else last
        query = PrometheusQuery(prometheus_url, start or first, end or last + timedelta(seconds=1))
    source = MetricsSource(query, tuple(files), allocations=tuple(allocations))
    return ingest_metrics(lake_uri=lake_uri, cluster=cluster, source=source, progress=progress)


def show_metrics(*, lake_uri: str, cluster: str) -> dict[str, Any]:
    """How many of the cluster's GPU jobs have figures, of which origin, and how well they were seen."""
    lake = Lake(lake_uri)
    jobs = lake.read_jobs(cluster, columns=("job_id", "submit_time", "gpus", "duration_s", *PROFILE))
    jobs = jobs[jobs["gpus"] >= 1]
    pieces = lake.read_job_metrics(cluster)
    latest = last_known(pieces)
    gpu_s = jobs["gpus"] * jobs["duration_s"].fillna(0.0)
    keys = pd.MultiIndex.from_frame(jobs[["job_id", "submit_time"]].astype({"job_id": object}))
    origins = []
    for origin, rows in latest.groupby("origin", sort=True):
        named = pd.MultiIndex.from_frame(rows[["job_id", "submit_time"]].astype({"job_id": object}))
        has = keys.isin(named)
        coverage = rows["coverage"].dropna()
        origins.append(
            {
                "origin": origin,
                "jobs": len(rows),
                "gpu_jobs_share": _share(int(has.sum()), len(jobs)),
                "gpu_time_share": _share(float(gpu_s[has].sum()), float(gpu_s.sum())),
                "median_coverage": float(coverage.median()) if len(coverage) else None,
                "jobs_seen_less_than_half": int((coverage < 0.5).sum()),
                "mean_gpu_util_pct": _mean(rows["gpu_util_pct"]),
                "mean_gpu_mem_util_pct": _mean(rows["gpu_mem_util_pct"]),
                "mean_gpu_mem_mib": _mean(rows["gpu_mem_mib"]),
                "first_known": rows["known_time"].min().isoformat(),
                "last_known": rows["known_time"].max().isoformat(),
            }
        )
    running = latest[latest["origin"] == RUNNING]
    return {
        "cluster": cluster,
        "gpu_jobs": len(jobs),
        "gpu_jobs_with_own_profile": int(jobs[list(PROFILE)].notna().all(axis=1).sum()),
        "jobs_measured_while_running": len(running),
        "days": len(lake.dates(cluster, "metrics")),
        "origins": origins,
    }


def _batches(source: MetricsSource, progress: Progress) -> Iterator[tuple[SampleBatch, str]]:
    """Samples that can be joined on their own, with the name of where they come from."""
    if source.files:
        at_s = None if source.scraped_at is None else _utc(source.scraped_at).timestamp()
        read = []
        files = [file for uri in source.files for file in _files_of(uri)]
        for index, uri in enumerate(files):
            progress(index, len(files), Work("reading metrics", "files"))
            read.append(read_samples_file(uri, source.rules, scraped_at_s=at_s))
        progress(len(files), len(files), Work("reading metrics", "files"))
        yield concat_batches(read), ", ".join(uri.rstrip("/").rsplit("/", 1)[-1] for uri in source.files)
    if source.prometheus is not None:
        asked = replace(source.prometheus, rules=source.rules)
        name = f"prometheus {urlsplit(asked.url).netloc}"
        days = [replace(asked, start=start, end=end) for start, end in _days(asked.start, asked.end)]
        queries = [len(list(day.pieces())) * len(asked.rules.metrics) for day in days]
        nothing: NotFoundError | None = None
        some = False
        total = sum(queries)
        for index, day in enumerate(days):

            def within(done: int, _: int | None, what: str, before: int = sum(queries[:index])) -> None:
                progress(before + done, total, what)

            try:
                batch = read_prometheus(day, progress=within)
            except NotFoundError as error:  # of a day, not of the whole range
                nothing = error
                continue
            some = True
            yield batch, name
        if nothing is not None and not some:
            raise nothing


def _files_of(uri: str) -> list[str]:
    """The file, or the Parquet files of a folder and its folders (the node sampler makes one a day)."""
    fs, path = locate(uri)
    if fs.get_file_info(path).type != pafs.FileType.Directory:
        return [uri]
    inside = [info.path for info in list_files(fs, path) if info.path.endswith(".parquet")]
    if not inside:
        raise BadInputError(f"The folder {uri} holds no Parquet file.", remedy="Name the samples' folder.")
    return [f"{uri.rstrip('/')}/{path_inside.removeprefix(path).lstrip('/')}" for path_inside in inside]


def _days(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    begin, last = _utc(start), _utc(end)
    while begin < last:
        midnight = datetime(begin.year, begin.month, begin.day, tzinfo=UTC) + timedelta(days=1)
        yield begin, min(midnight, last)
        begin = midnight


def _allocations(source: MetricsSource) -> list[AllocationBatch]:
    batches = [read_allocations(uri) for uri in source.allocations]
    if source.scontrol:
        gpus = read_gpu_map(str(source.gpu_map))
        for uri in source.scontrol:
            fs, path = locate(uri)
            try:
                with fs.open_input_stream(path) as stream:
                    text = bytes(stream.read()).decode("utf-8", errors="replace")
            except (OSError, pa.ArrowException) as error:
                raise BadInputError(f"{uri} cannot be read: {error}.", remedy="Check the path.") from error
            batches.append(read_scontrol(text, gpus, source_file=path.rsplit("/", 1)[-1]))
    return batches


def _sum(batches: Sequence[AllocationBatch]) -> Accounting:
    account = Accounting()
    for batch in batches:
        account.add(batch.accounting)
    return account


def _reasons(account: Accounting) -> Counter[str]:
    return Counter(
        {f"allocation: {name}": count for name, count in (account.quarantined + account.skipped).items()}
    )


def _fates(report: JoinReport) -> dict[str, int]:
    return {name: count for name, count in asdict(report).items() if name in _FATES}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _mean(values: "pd.Series[float]") -> float | None:
    return None if values.isna().all() else float(np.nanmean(values.to_numpy(dtype=np.float64)))


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
