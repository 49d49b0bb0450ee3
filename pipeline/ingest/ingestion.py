"""One cluster's tables into the lake: what the DAG `ingest_logs` maps its tasks to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster_logs.log_sources import SLURM, SYNTHETIC
from cluster_logs.quarantine import MAX_BAD_SHARE
from cluster_logs.slurm_mark import MarkKey
from foundation.errors import BadInputError
from foundation.plain_values import plain
from foundation.progress import Progress, silent
from pipeline.ingest.mark_keys import mark_key_of
from pipeline.training.windows import read_time


def ingest_cluster(
    *,
    source_format: str,
    input_uri: str | None,
    cluster: str,
    lake_uri: str,
    nodes_uri: str | None = None,
    gpus_per_node: int = 8,
    time_zone: str | None = None,
    start: str | None = None,
    end: str | None = None,
    days: int = 30,
    seed: int = 0,
    staged_uris: Sequence[str] | None = None,
    mark_key_file: Path | None = None,
    max_bad_share: float = MAX_BAD_SHARE,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Read a log (or make one: source_format `synthetic:LIKE`) and the cluster's nodes into the lake.

    `start` and `end` (ISO days or times) keep the jobs submitted in [start, end); a made log is whole. The
    source `slurm` is the accounting of this machine's Slurm: the runs that were about in the window, from
    `staged_uris` if `read_accounting` was called before. `mark_key_file`: the key of the cluster's live
    scheduler (default: `mark_key_of`). Returns the accounting with `lake_uri`. Raises BadInputError when the
    log is not named or does not go with the source, TooManyBadRowsError when more than `max_bad_share` of a
    file's rows are bad, NodesNeededError (with the jobs in the lake) when the cluster's size is not known.
    """
    made_here = source_format == SLURM or source_format.startswith(SYNTHETIC)
    if made_here and input_uri:
        raise BadInputError(
            f"Source {source_format!r} reads no file, but the log {input_uri!r} is named.",
            remedy="Leave the log out, or choose its format as the source.",
        )
    if source_format == SLURM:
        key = mark_key_of(cluster, mark_key_file)
        return _ingest_slurm(
            cluster, lake_uri, nodes_uri, gpus_per_node, start, end, staged_uris, key, progress
        )
    if source_format.startswith(SYNTHETIC):
        return _synthesize(source_format.removeprefix(SYNTHETIC), cluster, lake_uri, days=days, seed=seed)
    if not input_uri:
        raise BadInputError(
            f"No log is named for source {source_format!r}.",
            remedy="Give its path or URI, or choose a synthetic source.",
        )
    from cluster_logs.ingest import ingest_log
    from pipeline.ingest.cluster_size import settle_nodes

    _ingest_nodes(nodes_uri, cluster, lake_uri, gpus_per_node)
    report = ingest_log(
        source_format=source_format,
        input_uri=input_uri,
        cluster=cluster,
        lake_uri=lake_uri,
        time_zone=time_zone,
        gpus_per_node=gpus_per_node,
        start=read_time(start),
        end=read_time(end),
        mark_key=mark_key_of(cluster, mark_key_file),
        max_bad_share=max_bad_share,
        progress=progress,
    )
    remarks = settle_nodes(
        lake_uri=lake_uri,
        cluster=cluster,
        source_format=source_format,
        input_uri=input_uri,
        gpus_per_node=gpus_per_node,
    )
    return {**plain(report), "remarks": remarks, "lake_uri": lake_uri}


def read_accounting(
    *,
    cluster: str,
    lake_uri: str,
    start: str | None = None,
    end: str | None = None,
    interval_start: str | None = None,
    nodes: bool = True,
    mark_key: MarkKey | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Stage what this machine's Slurm knows of a window, and renew the nodes; returns where it lies."""
    from pipeline.ingest.slurm_log import stage_accounting

    staged = stage_accounting(
        cluster=cluster,
        lake_uri=lake_uri,
        start=read_time(start),
        end=read_time(end),
        interval_start=read_time(interval_start),
        nodes=nodes,
        mark_key=mark_key or mark_key_of(cluster),
        progress=progress,
    )
    found: dict[str, Any] = plain(staged)
    return found


def ingest_throughput(
    *, input_uri: str, cluster: str, lake_uri: str, time_zone: str | None = None
) -> dict[str, Any]:
    """Read a published throughput table (Helios layout) into the lake; returns the accounting."""
    from cluster_logs.ingest import ingest_log

    report = ingest_log(
        source_format="helios-throughput",
        input_uri=input_uri,
        cluster=cluster,
        lake_uri=lake_uri,
        time_zone=time_zone,
    )
    return {**plain(report), "lake_uri": lake_uri}


def _ingest_slurm(
    cluster: str,
    lake_uri: str,
    nodes_uri: str | None,
    gpus_per_node: int,
    start: str | None,
    end: str | None,
    staged_uris: Sequence[str] | None,
    mark_key: MarkKey | None,
    progress: Progress,
) -> dict[str, Any]:
    from pipeline.ingest.slurm_log import ingest_staged

    nodes = None
    if staged_uris is None:
        staged = read_accounting(
            cluster=cluster,
            lake_uri=lake_uri,
            start=start,
            end=end,
            nodes=not nodes_uri,
            mark_key=mark_key,
            progress=progress,
        )
        staged_uris, nodes = staged["uris"], staged["nodes"]
    _ingest_nodes(nodes_uri, cluster, lake_uri, gpus_per_node)
    report = ingest_staged(
        staged_uris, cluster=cluster, lake_uri=lake_uri, mark_key=mark_key, progress=progress
    )
    return {**report, "nodes": nodes, "lake_uri": lake_uri}


def _ingest_nodes(nodes_uri: str | None, cluster: str, lake_uri: str, gpus_per_node: int) -> None:
    from cluster_logs.ingest import ingest_log

    if nodes_uri:
        ingest_log(
            source_format="nodes-csv",
            input_uri=nodes_uri,
            cluster=cluster,
            lake_uri=lake_uri,
            gpus_per_node=gpus_per_node,
        )


def _synthesize(like: str, cluster: str, lake_uri: str, *, days: int, seed: int) -> dict[str, Any]:
    from cluster_logs.lake import Lake
    from cluster_logs.synthetic import generator

    made = generator.synthesize(like, days=days, seed=seed)
    tables = generator.write_to_lake(made, Lake(lake_uri), cluster)
    rows = len(made.jobs)
    return {
        "cluster": cluster,
        "source_format": f"{SYNTHETIC}{like}",
        "rows_in": rows,
        "rows_kept": rows,
        "rows_quarantined": 0,
        "rows_skipped": 0,
        "reasons": {},
        "tables": plain(tables),
        "lake_uri": lake_uri,
    }
