"""A live Slurm as a source of logs: its accounting into files of the lake, its nodes into the lake's table.

    LAKE/staging/cluster=C/sacct-2026-11-21.txt.gz     all runs that were about on that UTC day
    LAKE/staging/cluster=C/sacct-unfinished.txt.gz     unfinished jobs of the lake that no day lists

A day is read again as long as it is in the window or its overlap: jobs that ended since get their rows, and
the lake merges them by job. Nothing is staged unless accounting answered for the whole window.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_table import FINISHED_STATES
from cluster_logs.lake import Lake
from cluster_logs.lake_files import unchanged
from cluster_logs.log_sources import SLURM
from cluster_logs.node_table import nodes_of_each
from cluster_logs.quarantine import Accounting
from cluster_logs.slurm_mark import MarkKey
from foundation.errors import BadInputError, NotFoundError
from foundation.outside_names import check_cluster_name
from foundation.progress import Progress, silent
from foundation.storage import locate, write_atomically
from live_scheduler.hindsight.cluster_sizes import ClusterSizes, count_nodes
from live_scheduler.slurm import accounting
from live_scheduler.slurm.node_reading import read_nodes

# Accounting may be late (slurmdbd was down, a node came back): so much of the past is read again.
OVERLAP_H = 24.0
# How far back the first ingest of a cluster reads, unless set.
FIRST_DAYS = 30
NODES_LIMIT_S = 60.0
# The one writer's task: whatever it left behind, the next run of it completes.
TASK = "ingest of Slurm's accounting"


_KEEP_NODES = "scontrol --all show node > nodes.txt, and lucid ingest --nodes nodes.txt."


@dataclass(frozen=True)
class StagedAccounting:
    """Files for the reader `sacct`, in order, what they cover, and the nodes that the lake now has."""

    uris: tuple[str, ...]
    start: datetime
    end: datetime
    rows: int
    nodes: ClusterSizes | None


@dataclass(frozen=True)
class AccountingWindow:
    """[start - overlap, end) of Slurm's accounting; times without a zone are UTC.

    `start`: by default the newest submission in the lake, or FIRST_DAYS ago in an empty one, and not later
    than `interval_start`: nothing is missing after a pause of the schedule. `end`: by default now.
    """

    start: datetime | None = None
    end: datetime | None = None
    interval_start: datetime | None = None
    overlap_h: float = OVERLAP_H


def stage_accounting(
    *,
    cluster: str,
    lake_uri: str,
    window: AccountingWindow,
    nodes: bool = True,
    mark_key: MarkKey | None = None,
    wait_s: float | None = None,
    progress: Progress = silent,
) -> StagedAccounting:
    """Write what this machine's Slurm knows of a window into the staging area.

    With `nodes` the lake's nodes are brought up to date, too: those of each partition that jobs belong to.
    The first count holds from the beginning, a later one from today (UTC) on.

    Raises ServiceUnavailableError when slurmdbd or slurmctld does not answer
    (nothing was written then), BadInputError for a window that is none or a Slurm without accounting.
    """
    start, end, overlap_h = window.start, window.end, window.overlap_h
    if not 0 <= overlap_h <= 24 * 366:
        raise BadInputError(f"An overlap of {overlap_h!r} hours.", remedy="Use 0 to 8784.")
    lake = Lake(lake_uri, wait_s=wait_s)
    # What an ingest of accounting left half-written may be read here: `ingest_staged` completes it.
    with lake.writes.completing(cluster, TASK):
        until = _utc(end) if end is not None else datetime.now(UTC)
        since = _utc(start) if start is not None else _beginning(lake, cluster, until, window.interval_start)
        days = accounting.days_between(since - timedelta(hours=overlap_h), until)
        # Marks first: a job that ends meanwhile has its mark in accounting by then.
        marks, least_mib = accounting.marks_of_living(), read_nodes(NODES_LIMIT_S).least_memory_mib
        lines_by_day: dict[str, list[str]] = {}
        for done, (first, last) in enumerate(days):
            progress(done, len(days) + 1, f"accounting of {first:%Y-%m-%d}")
            lines_by_day[f"{first:%Y-%m-%d}"] = accounting.runs_between(first, last, marks, least_mib)
        progress(len(days), len(days) + 1, "jobs that had not ended")
        seen = {accounting.job_id_of(line) for lines in lines_by_day.values() for line in lines}
        waiting = [job_id for job_id in unchanged(lambda: _unfinished(lake, cluster)) if job_id not in seen]
        if waiting:
            lines_by_day["unfinished"] = accounting.runs_of(waiting, marks, least_mib)
        nodes_seen = accounting.gpu_nodes() if nodes else []
        homes = {accounting.home_of(line, mark_key) for lines in lines_by_day.values() for line in lines}
        with lake.writing(cluster, TASK, ("nodes",), repairs=False, progress=progress):
            uris = tuple(
                _stage(lake_uri, cluster, name, lines) for name, lines in lines_by_day.items() if lines
            )
            sizes = _renew_nodes(lake, cluster, nodes_seen, homes | _virtual_clusters(lake, cluster))
        return StagedAccounting(uris, days[0][0], until, sum(map(len, lines_by_day.values())), sizes)


def ingest_staged(
    uris: Sequence[str],
    *,
    cluster: str,
    lake_uri: str,
    nodes: pd.DataFrame | None = None,
    mark_key: MarkKey | None = None,
    wait_s: float | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Read staged files into the lake, one after another, and then `nodes` (virtual_cluster, nodes,
    gpus_per_node), as one change; returns one account of all their rows.

    A run that was about on two days has a row in both files: it is read twice and is one job of the lake.
    Files that an earlier ingest had begun with and did not end with are read again before.
    """
    from cluster_logs.ingest import JOB_TABLES, IngestSettings, ingest_log
    from foundation.jsonable import to_jsonable

    total: dict[str, Any] = {
        "cluster": cluster,
        "source_format": SLURM,
        **Accounting().totals(),
        "reasons": {},
        "tables": [],
        "first_submit": None,
        "last_submit": None,
        "notes": {},
        "unknown_values": {},
    }
    firsts, lasts = [], []
    lake = Lake(lake_uri, wait_s=wait_s)
    with lake.writing(cluster, TASK, JOB_TABLES, inputs=uris, progress=progress) as session:
        left_behind = () if session.left_behind is None else session.left_behind.inputs
        for uri in dict.fromkeys([*left_behind, *uris]):
            # Our own question to sacct: the format is right, and a day may well hold one run that is bad.
            report = ingest_log(
                source_format="sacct",
                input_uri=uri,
                cluster=cluster,
                lake_uri=lake_uri,
                settings=IngestSettings(max_bad_share=1.0, mark_key=mark_key),
                progress=progress,
            )
            for key in Accounting().totals():
                total[key] += getattr(report, key)
            for counts in ("reasons", "notes", "unknown_values"):
                for name, count in getattr(report, counts).items():
                    total[counts][name] = total[counts].get(name, 0) + count
            total["tables"] += [table for table in report.tables if table not in total["tables"]]
            firsts += [report.first_submit] if report.first_submit else []
            lasts += [report.last_submit] if report.last_submit else []
        if nodes is not None:
            lake.write_nodes(cluster, nodes)
    total["first_submit"] = to_jsonable(min(firsts)) if firsts else None
    total["last_submit"] = to_jsonable(max(lasts)) if lasts else None
    return total


def _renew_nodes(
    lake: Lake, cluster: str, nodes: Iterable[accounting.SlurmNode], homes: set[str]
) -> ClusterSizes | None:
    """Write the count of the nodes if it changed; None where no partition with jobs has GPUs.

    A table with a row a node, which someone gave, stands: it says more than a count.
    """
    partitions: dict[tuple[str, int], set[str]] = {}
    for node in nodes:
        partitions.setdefault((node.name, node.gpus), set()).add(node.partition)
    try:
        recorded: pd.DataFrame | None = lake.read_nodes(cluster)
    except NotFoundError:
        recorded = None
    if recorded is not None and "node" in recorded:
        return _as_given(recorded, dict(partitions.keys()))
    unit = None if recorded is None or recorded.empty else int(recorded["gpus_per_node"].iloc[0])
    offered = ((name, gpus, owners) for (name, gpus), owners in partitions.items())
    sizes = count_nodes(offered, homes, gpus_per_node=unit)
    if sizes is None:
        return None
    if sizes.remarks:
        sizes = replace(sizes, remarks=(*sizes.remarks, f"To keep them as they are: {_KEEP_NODES}"))
    counts = dict(sizes.nodes)
    day = None
    if recorded is not None:
        before = dict(
            zip(recorded["virtual_cluster"].astype(str), recorded["nodes"].astype(int), strict=True)
        )
        if before == counts:
            return sizes
        counts |= {name: 0 for name in before if name not in counts}
        day = datetime.now(UTC).date()
    lake.write_nodes(
        cluster,
        pd.DataFrame(
            {
                "virtual_cluster": list(counts),
                "nodes": list(counts.values()),
                "gpus_per_node": sizes.gpus_per_node,
                "date": pd.Series([day] * len(counts), dtype=object),
            }
        ),
    )
    return sizes


def _as_given(recorded: pd.DataFrame, seen: Mapping[str, int]) -> ClusterSizes:
    """Say which nodes the lake has, and where Slurm has others."""
    table = nodes_of_each(recorded)
    given = dict(zip(recorded["node"].astype(str), recorded["gpus_per_node"].astype(int), strict=True))
    differ = sorted(name for name in {*given, *seen} if given.get(name, 0) != seen.get(name, 0))
    remarks = tuple(
        f"Slurm's nodes are not as in the lake's table, which stands: {len(differ)} differ, first {first}. "
        f"To renew it: {_KEEP_NODES}"
        for first in differ[:1]
    )
    nodes = {str(name): int(count) for name, count in table["nodes"].items()}
    return ClusterSizes(nodes, int(table["gpus_per_node"].max()), remarks)


def _stage(lake_uri: str, cluster: str, name: str, lines: Iterable[str]) -> str:
    uri = f"{lake_uri.rstrip('/')}/staging/cluster={check_cluster_name(cluster)}/sacct-{name}.txt.gz"
    fs, path = locate(uri)
    payload = (accounting.HEADER + "".join(lines)).encode()
    write_atomically(fs, path, lambda sink: sink.write(payload))  # compressed, as the file's name says
    return uri


def _beginning(lake: Lake, cluster: str, until: datetime, interval_start: datetime | None) -> datetime:
    """From when on to read by default."""
    days = lake.dates(cluster)
    if not days:
        return until - timedelta(days=FIRST_DAYS)
    midnight = datetime(days[-1].year, days[-1].month, days[-1].day, tzinfo=UTC)
    newest: datetime = lake.read_jobs(cluster, midnight, None, ["submit_time"])["submit_time"].max()
    latest = until if interval_start is None else min(until, _utc(interval_start))
    return min(newest, latest - timedelta(microseconds=1))


def _unfinished(lake: Lake, cluster: str) -> list[str]:
    """The ids of jobs that wait or run as far as the lake knows, in the order of their submission."""
    job_ids: dict[str, None] = {}
    ended = pa.array(sorted(FINISHED_STATES), pa.string())
    for table in lake.iter_jobs(cluster, columns=["job_id", "state"]) if lake.dates(cluster) else ():
        state = table.column("state")
        open_ = pc.and_(pc.is_valid(state), pc.invert(pc.is_in(state, value_set=ended)))
        job_ids.update(dict.fromkeys(table.filter(open_).column("job_id").to_pylist()))
    return list(job_ids)


def _virtual_clusters(lake: Lake, cluster: str) -> set[str]:
    names: set[str] = set()
    for table in lake.iter_jobs(cluster, columns=["virtual_cluster"]) if lake.dates(cluster) else ():
        names.update(pc.unique(table.column("virtual_cluster")).to_pylist())
    return names


def _utc(when: datetime) -> datetime:
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
