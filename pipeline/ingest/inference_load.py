"""The load of inference servers into the lake's table `inference_load`.

What `lucid inference ingest` and the DAG `ingest_logs` call. A file is a format of `lucid ingest`
(`inference-load`), and a synthetic cluster brings its own; here is what a Prometheus measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from cluster_logs.inference_load import LoadReading
from cluster_logs.ingest import IngestSettings, ingest_log
from cluster_logs.lake import Lake
from cluster_logs.metrics.inference_queries import InferenceLoadQuery, parse_load_queries, read_inference_load
from cluster_logs.metrics.prometheus import PrometheusQuery
from foundation.errors import NotFoundError
from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from pipeline.training.windows import submission_span

TABLE = "inference_load"
STEP_S = 300.0


@dataclass(frozen=True)
class InferenceLoadReport:
    """What became of the steps that a server was asked for, and what was written."""

    cluster: str
    rows_in: int
    rows_kept: int
    rows_quarantined: int
    rows_skipped: int
    reasons: dict[str, int]
    first: datetime | None
    last: datetime | None
    files_changed: int
    tables: tuple[str, ...]


def ingest_measured_load(
    *,
    lake_uri: str,
    cluster: str,
    query: InferenceLoadQuery,
    wait_s: float | None = None,
    progress: Progress = silent,
) -> InferenceLoadReport:
    """Write what a Prometheus measured into the lake; the same twice changes nothing.

    Raises NotFoundError where the server has no load.
    """
    lake = Lake(lake_uri, wait_s=wait_s)
    read = read_inference_load(query, progress)
    with lake.writing(cluster, "ingest of inference load", (TABLE, "quarantine"), progress=progress):
        changed = lake.write_inference_load(cluster, read.rows) if read.rows.num_rows else 0
        if read.refused.num_rows:
            lake.add_quarantine(cluster, "inference-load", read.refused)
    times = pc.min_max(read.rows.column("time")).as_py()
    account = read.accounting
    return InferenceLoadReport(
        cluster=cluster,
        rows_in=account.rows_in,
        rows_kept=account.kept,
        rows_quarantined=account.quarantined.total(),
        rows_skipped=account.skipped.total(),
        reasons=account.reasons(),
        first=times["min"],
        last=times["max"],
        files_changed=changed,
        tables=(lake.table_uri(TABLE, cluster),),
    )


def ingest_recorded_load(
    *,
    lake_uri: str,
    cluster: str,
    input_uri: str | None = None,
    time_zone: str | None = None,
    load: LoadReading | None = None,
    prometheus: InferenceLoadQuery | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """As a DAG calls it: a file, else a server, else what the lake holds already (a made log's).

    Raises NotFoundError where there is none of them.
    """
    if input_uri:
        report = ingest_log(
            source_format="inference-load",
            input_uri=input_uri,
            cluster=cluster,
            lake_uri=lake_uri,
            settings=IngestSettings(time_zone=time_zone, load=load or LoadReading()),
            progress=progress,
        )
        return dict(to_jsonable(report))
    if prometheus is not None:
        measured = ingest_measured_load(
            lake_uri=lake_uri, cluster=cluster, query=prometheus, progress=progress
        )
        return dict(to_jsonable(measured))
    if not Lake(lake_uri).dates(cluster, TABLE):
        raise NotFoundError(
            f"No load of inference servers is named for cluster {cluster!r}.",
            remedy="Name a file, or set LUCID_INFERENCE_QUERIES; without it nothing is lent.",
        )
    return {
        "cluster": cluster,
        **dict.fromkeys(("rows_in", "rows_kept", "rows_quarantined", "rows_skipped"), 0),
    }


def load_query_of_range(
    lake_uri: str,
    cluster: str,
    url: str,
    queries: Sequence[str],
    start: datetime | None = None,
    end: datetime | None = None,
    load: LoadReading | None = None,
) -> InferenceLoadQuery:
    """Return the question for five-minute bins of [start, end), default: as long as jobs were submitted."""
    if start is None or end is None:
        first, last = submission_span(lake_uri, cluster)
        start, end = start or first, end or last + timedelta(seconds=STEP_S)
    server = PrometheusQuery(url, start, end, STEP_S)
    return InferenceLoadQuery(server, parse_load_queries(queries), load or LoadReading())


def show_inference_load(*, lake_uri: str, cluster: str) -> dict[str, Any]:
    """Return what the lake holds of a cluster's inference load; raises NotFoundError where it is nothing."""
    bins = Lake(lake_uri).read_inference_load(cluster)
    measured = bins[~bins["gap"]]
    usage = measured["usage"]
    servers = bins["servers"].dropna()
    return {
        "cluster": cluster,
        "bins": len(bins),
        "gaps": int(bins["gap"].sum()),
        "origin": ", ".join(sorted(bins["origin"].unique())),
        "first": bins["time"].iloc[0].isoformat(),
        "last": bins["time"].iloc[-1].isoformat(),
        "servers": None if servers.empty else int(servers.iloc[-1]),
        "mean_usage": None if measured.empty else float(usage.mean()),
        "least_usage": None if measured.empty else float(usage.min()),
        "most_usage": None if measured.empty else float(usage.max()),
    }
