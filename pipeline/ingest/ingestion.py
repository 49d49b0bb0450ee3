"""One cluster's tables into the lake: what the DAG `ingest_logs` maps its tasks to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster_logs.log_sources import SLURM, SYNTHETIC
from cluster_logs.quarantine import MAX_BAD_SHARE
from cluster_logs.slurm_mark import MarkKey
from cluster_logs.throughput import DEFAULT_BIN_S
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
    nodes_required: bool = True,
    gpus_per_node: int = 8,
    time_zone: str | None = None,
    start: str | None = None,
    end: str | None = None,
    bin_s: int = DEFAULT_BIN_S,
    days: int = 30,
    seed: int = 0,
    staged_uris: Sequence[str] | None = None,
    mark_key_file: Path | None = None,
    max_bad_share: float = MAX_BAD_SHARE,
    wait_s: float | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Read a log (or make one: source_format `synthetic:LIKE`) and the cluster's nodes into the lake, as one
    change of it.

    `start` and `end` (ISO days or times) keep the jobs submitted in [start, end); a made log is whole. The
    source `slurm` is the accounting of this machine's Slurm: the runs that were about in the window, from
    `staged_uris` if `read_accounting` was called before. `mark_key_file`: the key of the cluster's live
    scheduler (default: `mark_key_of`). `bin_s`, `max_bad_share`, `wait_s`: as for `ingest_log`.

    Returns the accounting with `lake_uri`, and with `remarks` of a file's cluster. Raises BadInputError when
    the log is not named or does not go with the source, or when a row of the nodes file cannot be used;
    TooManyBadRowsError when more than `max_bad_share` of a file's rows are bad; NodesNeededError (with the
    jobs in the lake) when the cluster's size is not known, which without `nodes_required` is a remark.
    """
    made_here = source_format == SLURM or source_format.startswith(SYNTHETIC)
    if made_here and input_uri:
        raise BadInputError(
            f"Source {source_format!r} reads no file, but the log {input_uri!r} is named.",
            remedy="Leave the log out, or choose its format as the source.",
        )
    if source_format.startswith(SYNTHETIC):
        return _synthesize(source_format.removeprefix(SYNTHETIC), cluster, lake_uri, days=days, seed=seed)
    if not made_here and not input_uri:
        raise BadInputError(
            f"No log is named for source {source_format!r}.",
            remedy="Give its path or URI, or choose a synthetic source.",
        )
    from cluster_logs.ingest import ingest_log
    from cluster_logs.readers.nodes_file import read_nodes_file
    from pipeline.ingest.cluster_size import NodesNeededError, settle_nodes

    mark_key = mark_key_of(cluster, mark_key_file)
    nodes = read_nodes_file(nodes_uri, gpus_per_node=gpus_per_node) if nodes_uri else None
    if not input_uri:
        from pipeline.ingest.slurm_log import ingest_staged

        counted = None
        if staged_uris is None:
            staged = read_accounting(
                cluster=cluster,
                lake_uri=lake_uri,
                start=start,
                end=end,
                nodes=nodes is None,
                mark_key=mark_key,
                wait_s=wait_s,
                progress=progress,
            )
            staged_uris, counted = staged["uris"], staged["nodes"]
        account = ingest_staged(
            staged_uris,
            cluster=cluster,
            lake_uri=lake_uri,
            nodes=nodes,
            mark_key=mark_key,
            wait_s=wait_s,
            progress=progress,
        )
        return {**account, "nodes": counted, "lake_uri": lake_uri}
    report = ingest_log(
        source_format=source_format,
        input_uri=input_uri,
        cluster=cluster,
        lake_uri=lake_uri,
        time_zone=time_zone,
        gpus_per_node=gpus_per_node,
        start=read_time(start),
        end=read_time(end),
        bin_s=bin_s,
        max_bad_share=max_bad_share,
        mark_key=mark_key,
        nodes=nodes,
        wait_s=wait_s,
        progress=progress,
    )
    try:
        remarks = settle_nodes(
            lake_uri=lake_uri,
            cluster=cluster,
            source_format=source_format,
            input_uri=input_uri,
            gpus_per_node=gpus_per_node,
        )
    except NodesNeededError as error:
        if nodes_required:
            raise
        remarks = [str(error)]
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
    wait_s: float | None = None,
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
        wait_s=wait_s,
        progress=progress,
    )
    facts: dict[str, Any] = plain(staged)
    return facts


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
