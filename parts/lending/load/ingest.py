"""The load of inference servers into the lake's table `inference_load`.

What `lucid inference ingest` and the DAG `ingest_logs` call. A file is a format of `lucid ingest`
(`inference-load`), and a synthetic cluster brings its own; here is what a Prometheus measured.
"""

from typing import Any

from cluster_logs.lake import Lake
from cluster_logs.quarantine import Accounting
from foundation.errors import NotFoundError
from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from parts.lending.load.queries import InferenceLoadQuery, parse_load_queries, read_inference_load
from parts.lending.load.table import LoadReading
from pipeline.ingest.measured_series import RecordedSeries, SeriesReport, SeriesTable, write_series

TABLE = SeriesTable(
    "inference_load",
    "inference load",
    "inference-load",
    lambda lake, cluster, rows: lake.write_series("inference_load", cluster, rows),
)
STEP_S = 300.0


def ingest_measured_load(
    *,
    lake_uri: str,
    cluster: str,
    query: InferenceLoadQuery,
    wait_s: float | None = None,
    progress: Progress = silent,
) -> SeriesReport:
    """Write what a Prometheus measured into the lake; the same twice changes nothing.

    Raises NotFoundError where the server has no load.
    """
    measured = read_inference_load(query, progress)
    return write_series(Lake(lake_uri, wait_s=wait_s), cluster, TABLE, measured, progress)


def ingest_recorded_load(
    source: RecordedSeries, load: LoadReading, progress: Progress = silent
) -> dict[str, Any]:
    """As a DAG calls it: a file, else a server, else what the lake holds already (a made log's).

    Raises NotFoundError where there is none of them.
    """
    if source.input_uri:
        report = source.ingest_file(source.input_uri, "inference-load", progress, beside=load)
        return dict(to_jsonable(report))
    server = source.server(STEP_S)
    if server is not None:
        query = InferenceLoadQuery(server, parse_load_queries(source.queries), load)
        measured = ingest_measured_load(
            lake_uri=source.lake_uri, cluster=source.cluster, query=query, progress=progress
        )
        return dict(to_jsonable(measured))
    if not Lake(source.lake_uri).dates(source.cluster, TABLE.name):
        raise NotFoundError(
            f"No load of inference servers is named for cluster {source.cluster!r}.",
            remedy="Name a file, or set LUCID_INFERENCE_QUERIES; without it nothing is lent.",
        )
    return {"cluster": source.cluster, **Accounting().totals()}


def show_inference_load(*, lake_uri: str, cluster: str) -> dict[str, Any]:
    """Return what the lake holds of a cluster's inference load; raises NotFoundError where it is nothing."""
    bins = Lake(lake_uri).read_series("inference_load", cluster)
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
