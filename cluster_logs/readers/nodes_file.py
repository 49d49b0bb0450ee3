"""Nodes per virtual cluster: CSV with two columns, whatever their header (`virtual_cluster,nodes`, `vc,node
num`, `,num`).

The first column is the name, as text (`6214e9` is not a number), the second the number of nodes. A third
column `gpus_per_node`, where there is one, stands above the caller's number. Counts that change with time:
`nodes_over_time.py`.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.job_table import to_frame
from cluster_logs.node_states import MAX_NODES
from cluster_logs.readers.base import Context, ReadChunk, Reader, ReadOptions, read_chunks
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.helios import NODE_ROWS_SCHEMA
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.values import FloatArray, Mask, is_missing
from foundation.errors import BadInputError


@dataclass(frozen=True)
class Counts:
    """One value a row: the virtual cluster's name, its nodes and the GPUs of each."""

    names: pa.Array
    nodes: FloatArray
    gpus_per_node: FloatArray

    def columns(self, kept_rows: Mask) -> dict[str, pa.Array]:
        """Return the rows that are kept, as columns of a table of nodes."""
        return {
            "virtual_cluster": self.names.filter(pa.array(kept_rows)),
            "nodes": pa.array(self.nodes[kept_rows].astype(np.int32)),
            "gpus_per_node": pa.array(self.gpus_per_node[kept_rows].astype(np.int32)),
        }


def checked_counts(checker: RowChecker, context: Context) -> Counts:
    """Read the columns that every nodes file has; rows that cannot be used are refused."""
    columns = list(checker.chunk.columns)
    if len(columns) < 2:
        raise BadInputError(
            f"{checker.source_file} has one column.",
            remedy="A nodes file reads virtual_cluster,nodes (comma-separated).",
        )
    names = checker.text(columns[0])
    checker.reject(is_missing(names), q.MISSING_VIRTUAL_CLUSTER, columns[0])
    nodes = checker.count(columns[1], MAX_NODES)
    per_node = np.full(len(checker), float(context.options.gpus_per_node))
    if "gpus_per_node" in checker:
        per_node = checker.number("gpus_per_node")
        checker.reject(~((per_node > 0) & (per_node <= 1024)), q.IMPLAUSIBLE_COUNT, "gpus_per_node")
        checker.reject(per_node != np.floor(per_node), q.UNREADABLE_NUMBER, "gpus_per_node")
    return Counts(names, nodes, per_node)


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    counts = checked_counts(checker, context)
    kept_rows = checker.kept()
    dates = pa.nulls(int(kept_rows.sum()), pa.date32())
    return (
        pa.table({**counts.columns(kept_rows), "date": dates})
        .select(NODE_ROWS_SCHEMA.names)
        .cast(NODE_ROWS_SCHEMA)
    )


READER = Reader(
    name="nodes-csv",
    summary="Nodes of each virtual cluster (CSV virtual_cluster,nodes)",
    table="nodes",
    time_zone="UTC",
    chunks=Layout(required=(), every_column=True),
    normalise=_normalise,
)


def every_row(chunk: ReadChunk, path: str) -> pa.Table:
    """Return the rows of a chunk; raises BadInputError for the first one refused.

    A cluster with a part missing is another cluster, so nothing is quarantined here.
    """
    if chunk.refused.num_rows:
        first = chunk.refused.slice(0, 1).to_pylist()[0]
        raise BadInputError(
            f"{path}, row {first['source_row']}: {q.REASONS[first['reason']]} "
            f"It reads: {first['raw_row']!r}.",
            remedy="Correct the row.",
        )
    return chunk.rows


def read_nodes_file(path: str, gpus_per_node: int = 8) -> pd.DataFrame:
    """virtual_cluster (text), nodes, gpus_per_node of a nodes file, in the file's order; `.gz` and URIs too.

    Raises BadInputError for a row that cannot be used, and for a virtual cluster that is named twice: a
    cluster with a part missing is another cluster.
    """
    tables = [NODE_ROWS_SCHEMA.empty_table()]
    chunks = read_chunks(READER, str(path), ReadOptions("nodes", gpus_per_node=gpus_per_node))
    tables += [every_row(chunk, path) for chunk in chunks]
    nodes = to_frame(pa.concat_tables(tables).drop_columns(["date"]))
    twice = nodes["virtual_cluster"][nodes["virtual_cluster"].duplicated()]
    if len(twice):
        raise BadInputError(f"{path} names virtual cluster {twice.iloc[0]!r} twice.", remedy="Keep one row.")
    if nodes.empty:
        raise BadInputError(f"{path} names no virtual cluster.", remedy="It reads virtual_cluster,nodes.")
    return nodes
