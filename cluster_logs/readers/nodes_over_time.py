"""Nodes per virtual cluster as they change: a nodes file with a `date` (or `from`) column, or Helios's
`cluster_gpu_number.csv` (a date and the GPUs of each virtual cluster, one column each).

    virtual_cluster,nodes,from
    vc1,20,
    vc1,24,2020-05-01
    vc1,0,2020-06-01 12:00:00

A row holds from its moment on, until the next row of the same virtual cluster; a row without one holds from
the beginning. A date is its midnight, on the log's clock.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs.job_table import NODES_SCHEMA, TIMESTAMP, conform
from cluster_logs.node_table import NODE_FACTS, without_unknown_facts
from cluster_logs.readers.base import Context, Reader, ReadOptions, read_chunks
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.helios import NODES_READER
from cluster_logs.readers.nodes_file import (
    checked_counts,
    every_row,
    is_slurm_node_file,
    read_slurm_node_file,
    refuse_repeated,
)
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.source import NOT_A_TIME, TextSource, load_zone
from foundation.errors import BadInputError

FROM_COLUMNS = ("from", "date")  # the first that is there

_SCHEMA = pa.schema(
    [
        ("virtual_cluster", pa.string()),
        ("from_time", TIMESTAMP),
        ("nodes", pa.int32()),
        ("gpus_per_node", pa.int32()),
        *(NODES_SCHEMA.field(name) for name in NODE_FACTS),
    ]
)


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    counts = checked_counts(checker, context)
    since = np.full(len(checker), NOT_A_TIME)
    column = next((name for name in FROM_COLUMNS if name in checker), None)
    if column is not None:
        since = checker.instant(column)
    kept_rows = checker.kept()
    from_time = pa.array(since[kept_rows], mask=since[kept_rows] == NOT_A_TIME).cast(TIMESTAMP)
    return conform(
        pa.table({**counts.columns(kept_rows), "from_time": from_time}), _SCHEMA, what="table of nodes"
    )


_READER = Reader(
    name="nodes-over-time",
    summary="Nodes of each virtual cluster from a moment on (CSV virtual_cluster,nodes,from)",
    table="nodes",
    time_zone="UTC",
    chunks=Layout(required=(), every_column=True),
    normalise=_normalise,
)


def read_nodes_over_time(path: str, *, gpus_per_node: int = 8, time_zone: str = "UTC") -> pd.DataFrame:
    """virtual_cluster, from_time (UTC; NaT: from the beginning), nodes, gpus_per_node and what else is said
    (NODE_FACTS), in the file's order. What `scontrol show node` prints holds from the beginning.

    `time_zone` is the clock of times without an offset. Raises BadInputError for a row that cannot be used,
    and for two rows of a virtual cluster that hold from the same moment.
    """
    load_zone(time_zone)
    if is_slurm_node_file(path):
        always = pa.nulls(0, TIMESTAMP).to_pandas()
        nodes = read_slurm_node_file(path)
        nodes.insert(1, "from_time", always.reindex(nodes.index))
        return nodes
    daily = _is_daily(path)
    reader = NODES_READER if daily else _READER
    tables = [] if daily else [_SCHEMA.empty_table()]
    chunks = read_chunks(reader, str(path), ReadOptions("nodes", time_zone, gpus_per_node))
    tables += [every_row(chunk, str(path)) for chunk in chunks]
    nodes = pa.concat_tables(tables).to_pandas() if tables else pd.DataFrame()
    if nodes.empty:
        raise BadInputError(
            f"{path} names no virtual cluster.", remedy="It reads virtual_cluster,nodes,from."
        )
    if daily:
        # A day begins at midnight on the log's clock.
        days = pd.to_datetime(nodes.pop("date"))
        midnight = days.dt.tz_localize(time_zone, ambiguous=True, nonexistent="shift_forward")
        nodes.insert(1, "from_time", midnight.dt.tz_convert("UTC"))
    nodes = without_unknown_facts(nodes)
    refuse_repeated(nodes, str(path))
    return nodes


def _is_daily(path: str) -> bool:
    """Whether the file is laid out as Helios's: a date first, and then a column a virtual cluster."""
    for block in TextSource(str(path)).blocks():
        header = block.partition(b"\n")[0].decode(errors="replace").strip().lower().split(",")
        return header[0].strip(' "\ufeff') == "date"
    return False
