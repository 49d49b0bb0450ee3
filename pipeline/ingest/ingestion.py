"""One cluster's tables into the lake: what the DAG `ingest_logs` maps its tasks to."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_logs.job_facts import JOB_FACTS
from cluster_logs.log_sources import SLURM, SYNTHETIC
from cluster_logs.quarantine import NOTES, WRONG_COLUMN_COUNT, Accounting
from cluster_logs.slurm_mark import MARK_KEY_FILE, MarkKey, read_mark_key
from cluster_logs.slurm_words import EXPORT_COMMAND, UNIT_SEPARATOR
from foundation.errors import BadInputError, LucidError
from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from pipeline import settings

if TYPE_CHECKING:  # what reads logs is imported where it is used: a form's list of sources is light
    from cluster_logs.ingest import IngestReport, IngestSettings
    from pipeline.ingest.slurm_log import AccountingWindow


# Names the file of the key that separates marks of a cluster's live scheduler from words of its users.
MARK_KEY_VARIABLE = "LUCID_MARK_KEY"


@dataclass(frozen=True)
class ClusterLog:
    """Where a cluster's log and its nodes come from.

    - `source_format`: a format of log files, `slurm` for the accounting of this machine's Slurm, or
      `synthetic:LIKE` for a log that is made, of so many `days` and by `seed`.
    - `nodes_uri`: a file of the virtual clusters' nodes; without `nodes_required` an unknown size of the
      cluster is a sentence in `remarks`, and no error.
    - `staged_uris`: of `read_accounting`, if it was called before.
    - `mark_key_file`: the key of the cluster's live scheduler (default: `mark_key_of`).
    """

    source_format: str
    input_uri: str | None = None
    nodes_uri: str | None = None
    nodes_required: bool = True
    days: int = 30
    seed: int = 0
    staged_uris: Sequence[str] | None = None
    mark_key_file: Path | None = None


def ingest_cluster(
    log: ClusterLog,
    *,
    cluster: str,
    lake_uri: str,
    settings: "IngestSettings | None" = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Read a log, or make one, and the cluster's nodes into the lake, as one change of it.

    The window of `settings` keeps the jobs submitted in it, of Slurm's accounting the runs that were about
    then; a made log is whole.

    Returns the accounting with `lake_uri`, and with `remarks` of a file's cluster. Raises BadInputError when
    the log is not named or does not go with the source, or when a row of the nodes file cannot be used;
    TooManyBadRowsError when too many of a file's rows are bad; NodesNeededError (with the jobs in the lake)
    when the cluster's size is not known.
    """
    source_format, input_uri = log.source_format, log.input_uri
    made_here = source_format == SLURM or source_format.startswith(SYNTHETIC)
    if made_here and input_uri:
        raise BadInputError(
            f"Source {source_format!r} reads no file, but the log {input_uri!r} is named.",
            remedy="Leave the log out, or choose its format as the source.",
        )
    if source_format.startswith(SYNTHETIC):
        return _synthesize(
            source_format.removeprefix(SYNTHETIC), cluster, lake_uri, days=log.days, seed=log.seed
        )
    if not made_here and not input_uri:
        raise BadInputError(
            f"No log is named for source {source_format!r}.",
            remedy="Give its path or URI, or choose a synthetic source.",
        )
    from cluster_logs.ingest import IngestSettings, ingest_log
    from cluster_logs.readers.nodes_file import read_nodes_file
    from pipeline.ingest.cluster_size import NodesNeededError, settle_nodes

    settings = settings or IngestSettings()
    mark_key = mark_key_of(cluster, log.mark_key_file)
    gpus_per_node, wait_s = settings.gpus_per_node, settings.wait_s
    nodes = read_nodes_file(log.nodes_uri, gpus_per_node=gpus_per_node) if log.nodes_uri else None
    if not input_uri:
        from pipeline.ingest.slurm_log import AccountingWindow, ingest_staged

        staged_uris, counted = log.staged_uris, None
        if staged_uris is None:
            staged = read_accounting(
                cluster=cluster,
                lake_uri=lake_uri,
                window=AccountingWindow(settings.start, settings.end),
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
        remarks = remarks_on_kept_jobs(account["notes"], account["unknown_values"])
        return {**account, "nodes": counted, "remarks": remarks, "lake_uri": lake_uri}
    remarks = []
    refused: LucidError | None = None

    def settle() -> None:
        nonlocal remarks, refused
        try:
            remarks = settle_nodes(
                lake_uri=lake_uri,
                cluster=cluster,
                source_format=source_format,
                input_uri=input_uri,
                gpus_per_node=gpus_per_node,
            )
        except LucidError as error:
            refused = error  # raised below: the jobs are whole in the lake, whatever their nodes are

    report = ingest_log(
        source_format=source_format,
        input_uri=input_uri,
        cluster=cluster,
        lake_uri=lake_uri,
        settings=replace(settings, mark_key=mark_key),
        nodes=nodes,
        settle=settle,
        progress=progress,
    )
    if isinstance(refused, NodesNeededError) and not log.nodes_required:
        remarks = [str(refused)]
    elif refused is not None:
        raise refused
    remarks += [
        *_remarks_on_separators(report, input_uri),
        *remarks_on_kept_jobs(report.notes, report.unknown_values),
    ]
    return {**to_jsonable(report), "remarks": remarks, "lake_uri": lake_uri}


def remarks_on_kept_jobs(notes: Mapping[str, int], unknown_values: Mapping[str, int]) -> list[str]:
    """What an `IngestReport` says of jobs that are kept: its notes, and values that could not be used."""
    remarks = [f"{name} ({count:,} job{'s' * (count != 1)}): {NOTES[name]}" for name, count in notes.items()]
    words = {fact.name: fact.words for fact in JOB_FACTS}
    lost = ", ".join(f"{count:,} of {words.get(name, name)}" for name, count in unknown_values.items())
    return remarks + (
        [f"Values that cannot be used are unknown, their jobs are kept: {lost}."] if lost else []
    )


def _remarks_on_separators(report: "IngestReport", input_uri: str) -> list[str]:
    """How the rows of accounting are saved that hold the separator: sacct quotes no names and comments."""
    from cluster_logs.readers.sacct_layout import layout_of
    from cluster_logs.readers.source import TextSource

    split = report.reasons.get(WRONG_COLUMN_COUNT, 0)
    if report.source_format != "sacct" or not split:
        return []
    if layout_of(TextSource(input_uri)).delimiter == UNIT_SEPARATOR:
        return []
    rows = "1 row has" if split == 1 else f"{split:,} rows have"
    remark = (
        f"{rows} more or fewer columns than the header, most likely by the separator or a line end in a name "
        "or comment. They are kept if the log is exported with a separator that no name holds, and ingested "
        f"again:\n{EXPORT_COMMAND}"
    )
    return [remark]


def read_accounting(
    *,
    cluster: str,
    lake_uri: str,
    window: "AccountingWindow",
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
        window=window,
        nodes=nodes,
        mark_key=mark_key or mark_key_of(cluster),
        wait_s=wait_s,
        progress=progress,
    )
    facts: dict[str, Any] = to_jsonable(staged)
    return facts


def ingest_throughput(
    *, input_uri: str, cluster: str, lake_uri: str, time_zone: str | None = None
) -> dict[str, Any]:
    """Read a published throughput table (Helios layout) into the lake; returns the accounting."""
    from cluster_logs.ingest import IngestSettings, ingest_log

    report = ingest_log(
        source_format="helios-throughput",
        input_uri=input_uri,
        cluster=cluster,
        lake_uri=lake_uri,
        settings=IngestSettings(time_zone=time_zone),
    )
    return {**to_jsonable(report), "lake_uri": lake_uri}


def _synthesize(like: str, cluster: str, lake_uri: str, *, days: int, seed: int) -> dict[str, Any]:
    from cluster_logs.lake import Lake
    from cluster_logs.synthetic import generator

    made = generator.synthesize(like, days=days, seed=seed)
    tables = generator.write_to_lake(made, Lake(lake_uri), cluster)
    rows = len(made.jobs)
    return {
        "cluster": cluster,
        "source_format": f"{SYNTHETIC}{like}",
        **Accounting(rows_in=rows, kept=rows).totals(),
        "reasons": {},
        "tables": to_jsonable(tables),
        "lake_uri": lake_uri,
    }


def mark_key_of(cluster: str, path: Path | None = None) -> MarkKey | None:
    """Return the key of the file that is named (or that LUCID_MARK_KEY names), else this machine's own.

    None where no live scheduler of the cluster has its state here: marks count as words then. Raises
    NotFoundError for a file that is named and not there, BadInputError for one that is no key.
    """
    named = path or os.environ.get(MARK_KEY_VARIABLE)
    if named:
        return read_mark_key(Path(named))
    own = settings.state_dir() / "live" / cluster / MARK_KEY_FILE
    return read_mark_key(own) if own.exists() else None
