"""How many nodes were busy, idle, down, asleep or booting: into the lake's table `node_states`.

What `lucid nodes ingest` and the DAG `ingest_logs` call. A published sequence is a format of
`lucid ingest` (`node-sequence`); here is what a live Slurm, its saved answers and a Prometheus give, and what
the job table lets derive where nodes were not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

import pandas as pd
import pyarrow as pa

from cluster_logs.derived_nodes import COLUMNS, STEP_S, ClusterSizeFrom, derive_node_states
from cluster_logs.job_table import REFUSED_SCHEMA
from cluster_logs.lake import Lake
from cluster_logs.lake_files import unchanged
from cluster_logs.log_sources import SLURM
from cluster_logs.metrics.node_counts import NodeCountQuery, parse_node_queries, read_node_counts
from cluster_logs.metrics.series_queries import MeasuredRows
from cluster_logs.node_table import counted
from cluster_logs.quarantine import Accounting
from cluster_logs.slurm_nodes import SINFO, read_slurm_nodes
from foundation.errors import BadInputError
from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from foundation.storage import read_input
from live_scheduler.slurm.commands import call
from pipeline.ingest.measured_series import RecordedSeries, SeriesReport, SeriesTable, write_series

MOST_BYTES = 1024 * 1024 * 1024


TABLE = SeriesTable("node_states", "node states", "node-counts", Lake.write_node_states)
SECONDS_OF_A_COUNT = 60.0  # between two counts that a server is asked for


@dataclass(frozen=True, kw_only=True)
class NodeStatesReport(SeriesReport):
    """What was written; `counts`: rows of the table."""

    counts: int


@dataclass(frozen=True)
class NodeStatesSource:
    """Where counts of nodes come from; exactly one of these.

    - `slurm`: this machine's Slurm, as it is now.
    - `slurm_files`: what sinfo or scontrol wrote; `at` is when, where a file does not say.
    - `prometheus`: a server, and a query a state.
    - `derive_step_s`: of the lake's jobs, in steps of so many seconds.
    """

    slurm: bool = False
    slurm_files: Sequence[str] = ()
    at: datetime | None = None
    prometheus: NodeCountQuery | None = None
    derive_step_s: int | None = None

    def __post_init__(self) -> None:
        sources = (
            self.slurm,
            bool(self.slurm_files),
            self.prometheus is not None,
            self.derive_step_s is not None,
        )
        if sum(sources) != 1:
            raise BadInputError(
                f"{'No' if not any(sources) else 'More than one'} source of node counts is named.",
                remedy="Give one of --slurm, --slurm-file FILE, --prometheus URL and --derive.",
            )
        if self.derive_step_s is not None and not 1 <= self.derive_step_s <= 86_400:
            raise BadInputError(f"A step of {self.derive_step_s} s.", remedy="Use 1 to 86,400 s.")


def ingest_node_states(
    *,
    lake_uri: str,
    cluster: str,
    source: NodeStatesSource,
    wait_s: float | None = None,
    progress: Progress = silent,
) -> NodeStatesReport:
    """Write counts of nodes into the lake; the same twice changes nothing, unless Slurm is asked for now.

    Rows are moments, or jobs where counts are derived. Raises NotFoundError where a server has no count, or
    the lake no jobs to derive from.
    """
    lake = Lake(lake_uri, wait_s=wait_s)
    nothing = REFUSED_SCHEMA.empty_table()
    if source.prometheus is not None:
        measured = read_node_counts(source.prometheus, progress)
    elif source.derive_step_s is not None:
        sizes, step_s = _sizes(lake, cluster), source.derive_step_s
        rows, account = unchanged(
            lambda: derive_node_states(lake.iter_jobs(cluster, columns=COLUMNS), sizes, step_s=step_s)
        )
        measured = MeasuredRows(rows, nothing, account)
    else:
        rows = _slurm_rows(source)
        measured = MeasuredRows(rows, nothing, Accounting(rows_in=rows.num_rows, kept=rows.num_rows))
    report = write_series(lake, cluster, TABLE, measured, progress)
    return NodeStatesReport(**vars(report), counts=measured.rows.num_rows)


def ingest_recorded_counts(
    source: RecordedSeries, source_format: str, progress: Progress = silent
) -> dict[str, Any]:
    """As a DAG calls it: a published sequence, else a server, else Slurm now, else what jobs let derive.

    Raises NotFoundError or BadInputError where there is nothing to count nodes by.
    """
    if source.input_uri:
        return dict(to_jsonable(source.ingest_file(source.input_uri, "node-sequence", progress)))
    server = source.server(SECONDS_OF_A_COUNT)
    if server is not None:
        counts = NodeStatesSource(prometheus=NodeCountQuery(server, parse_node_queries(source.queries)))
    elif source_format == SLURM:
        counts = NodeStatesSource(slurm=True)
    else:
        counts = NodeStatesSource(derive_step_s=STEP_S)
    report = ingest_node_states(
        lake_uri=source.lake_uri, cluster=source.cluster, source=counts, progress=progress
    )
    return dict(to_jsonable(report))


def show_node_states(*, lake_uri: str, cluster: str) -> dict[str, Any]:
    """Return what the lake holds of a cluster's nodes: of the whole, and of each virtual cluster."""
    states = Lake(lake_uri).read_node_states(cluster)
    series = []
    for owner, rows in states.groupby(states["virtual_cluster"].fillna(""), sort=True):
        counted = rows[~rows["held"]]
        latest = rows.iloc[-1]
        series.append(
            {
                "virtual_cluster": owner or None,
                "origin": ", ".join(sorted(rows["origin"].unique())),
                "counts": len(rows),
                "held": int(rows["held"].sum()),
                "first": rows["time"].iloc[0].isoformat(),
                "last": latest["time"].isoformat(),
                "nodes": int(latest["total"]),
                "mean_busy": None if counted.empty else float(counted["busy"].mean()),
                "most_busy": None if counted.empty else int(counted["busy"].max()),
            }
        )
    return {"cluster": cluster, "counts": len(states), "held": int(states["held"].sum()), "series": series}


def _slurm_rows(source: NodeStatesSource) -> pa.Table:
    if source.slurm:
        now = datetime.now(UTC).replace(microsecond=0)
        return read_slurm_nodes(call(SINFO), "sinfo", at=now)
    texts = (
        (uri, read_input(uri, most_bytes=MOST_BYTES).decode(errors="replace")) for uri in source.slurm_files
    )
    return pa.concat_tables([read_slurm_nodes(text, uri, at=source.at) for uri, text in texts])


def _sizes(lake: Lake, cluster: str) -> list[ClusterSizeFrom]:
    """Return the lake's node counts, by the day from which they hold (UTC)."""
    days: list[date | None] = [*lake.node_dates(cluster)] or [None]
    tables = [
        (day, counted(lake.read_nodes(cluster, day), "Deriving the nodes in use from jobs")) for day in days
    ]
    return [
        ClusterSizeFrom(
            pd.Timestamp(datetime.combine(day, time(), UTC)).timestamp() if day else 0.0,
            dict(zip(nodes["virtual_cluster"].astype(str), nodes["nodes"].astype(int), strict=True)),
            dict(zip(nodes["virtual_cluster"].astype(str), nodes["gpus_per_node"].astype(int), strict=True)),
        )
        for day, nodes in tables
    ]
