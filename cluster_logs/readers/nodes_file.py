"""Nodes per virtual cluster: CSV with two columns, whatever their header (`virtual_cluster,nodes`, `vc,node
num`, `,num`).

The first column is the name, as text (`6214e9` is not a number), the second the number of nodes. A third
column `gpus_per_node`, where there is one, stands above the caller's number; a virtual cluster with nodes of
several sizes has a row for each. Counts that change with time: `nodes_over_time.py`.

A row a node, with the columns `node` and `gpus`, or what `scontrol show node` prints, says more:

    node,gpus,gpu_type,cpus,memory_mib,partitions
    n1,8,a100,128,1024000,"gpu,long"
    n2,4,,64,512000,long

`partitions` are all that may use the node, separated by commas or `;` (`virtual_cluster`, where it has only
one, will do). The other columns may be left out, or empty.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.job_table import conform, to_frame
from cluster_logs.node_states import MAX_NODES
from cluster_logs.node_table import without_unknown_facts
from cluster_logs.readers.base import Context, ReadChunk, Reader, ReadOptions, read_chunks
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.helios import NODE_ROWS_SCHEMA
from cluster_logs.readers.row_checker import FloatArray, Mask, RowChecker, is_missing
from cluster_logs.readers.source import TextSource
from cluster_logs.slurm_words import gpu_words, gpus_of_gres
from foundation.errors import BadInputError

FIRST_WORD = "NodeName="
_SLURM_FIELD = re.compile(r"(?:^|\s)(NodeName|CPUTot|RealMemory|Gres|Partitions)=(\S*)")
_SLURM_RECORD = re.compile(r"^\s*(NodeName|PartitionName)=", re.MULTILINE)
_SEPARATOR = re.compile("[,;]")
_FIRST_BYTES = 4_096
_MOST_MIB = 1_000_000_000


@dataclass(frozen=True)
class Counts:
    """One value a row: the virtual cluster's name, its nodes, the GPUs of each, and what else is known."""

    names: pa.Array
    nodes: FloatArray
    gpus_per_node: FloatArray
    facts: Mapping[str, pa.Array] = field(default_factory=dict)

    def columns(self, kept_rows: Mask) -> dict[str, pa.Array]:
        """Return the rows that are kept, as columns of a table of nodes."""
        return {
            **{name: values.filter(pa.array(kept_rows)) for name, values in self.facts.items()},
            "virtual_cluster": self.names.filter(pa.array(kept_rows)),
            "nodes": pa.array(self.nodes[kept_rows].astype(np.int32)),
            "gpus_per_node": pa.array(self.gpus_per_node[kept_rows].astype(np.int32)),
        }


def checked_counts(checker: RowChecker, context: Context) -> Counts:
    """Read the columns that every nodes file has; rows that cannot be used are refused."""
    columns = list(checker.chunk.columns)
    if "node" in checker and "gpus" in checker:
        return _checked_nodes(checker)
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


def _checked_nodes(checker: RowChecker) -> Counts:
    """Read a table with a row a node."""
    if "partitions" not in checker and "virtual_cluster" not in checker:
        raise BadInputError(
            f"{checker.source_file} has a row a node, and no column of the virtual clusters that may use it.",
            remedy="Add the column partitions; several names are separated by ; or, in quotes, by commas.",
        )
    column = checker.first_of("partitions|virtual_cluster")
    texts = checker.text(column).to_pylist()
    owners = [
        list(dict.fromkeys(filter(None, map(str.strip, _SEPARATOR.split(text or ""))))) for text in texts
    ]
    checker.reject(np.array([not names for names in owners], dtype=bool), q.MISSING_VIRTUAL_CLUSTER, column)
    node = checker.text("node")
    checker.reject(is_missing(node), q.MISSING_NODE, "node")
    facts = {
        "node": node,
        "partitions": pa.array(
            [",".join(names) if len(names) > 1 else None for names in owners], pa.string()
        ),
    }
    gpu_type = checker.optional_text("gpu_type")
    if gpu_type is not None:
        facts["gpu_type"] = gpu_type
    for theirs, ours in (("cpus", "cpus_per_node"), ("memory_mib", "memory_mib_per_node")):
        if theirs in checker:
            amounts = checker.number(theirs)
            checker.reject(amounts < 0, q.NEGATIVE_COUNT, theirs)
            checker.reject(amounts > _MOST_MIB, q.IMPLAUSIBLE_COUNT, theirs)
            facts[ours] = pa.array(amounts, mask=np.isnan(amounts)).cast(pa.float64())
    names = pa.array([names[0] if names else None for names in owners], pa.string())
    return Counts(names, np.ones(len(checker)), checker.count("gpus", 1024), facts)


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    counts = checked_counts(checker, context)
    kept_rows = checker.kept()
    dates = pa.nulls(int(kept_rows.sum()), pa.date32())
    table = pa.table({**counts.columns(kept_rows), "date": dates})
    return conform(table, NODE_ROWS_SCHEMA, what="table of nodes")


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
    """virtual_cluster (text), nodes, gpus_per_node of a nodes file and what else it says (NODE_FACTS), in the
    file's order; `.gz` and URIs too.

    Raises BadInputError for a row that cannot be used, and for what is named twice: a cluster with a part
    missing is another cluster.
    """
    if is_slurm_node_file(path):
        return read_slurm_node_file(path)
    tables = [NODE_ROWS_SCHEMA.empty_table()]
    chunks = read_chunks(READER, str(path), ReadOptions("nodes", gpus_per_node=gpus_per_node))
    tables += [every_row(chunk, path) for chunk in chunks]
    nodes = to_frame(pa.concat_tables(tables).drop_columns(["date"]))
    nodes = without_unknown_facts(nodes)
    refuse_repeated(nodes, path)
    if nodes.empty:
        raise BadInputError(f"{path} names no virtual cluster.", remedy="It reads virtual_cluster,nodes.")
    return nodes


def refuse_repeated(nodes: pd.DataFrame, path: str) -> None:
    """Raise BadInputError for a node, or nodes of one size of a virtual cluster, twice (from one moment)."""
    kind, keys = ("node", ["node"]) if "node" in nodes else ("virtual cluster", ["virtual_cluster"])
    if kind != "node":
        keys.append("gpus_per_node")
    if "from_time" in nodes:
        keys.append("from_time")
    twice = nodes[nodes.duplicated(keys)]
    if len(twice):
        since = twice["from_time"].iloc[0] if "from_time" in twice else None
        when = "twice" if pd.isna(since) else f"twice for {since}"
        raise BadInputError(f"{path} names {kind} {twice[keys[0]].iloc[0]!r} {when}.", remedy="Keep one row.")


def is_slurm_node_file(path: str) -> bool:
    """Whether a file is what `scontrol show node` prints."""
    first = next(iter(TextSource(str(path), most_bytes=_FIRST_BYTES).blocks()), b"")
    return is_slurm_node_table(first.decode(errors="replace"))


def read_slurm_node_file(path: str) -> pd.DataFrame:
    """Return the nodes of what `scontrol show node` printed into a file, as `read_nodes_file` does."""
    text = b"".join(TextSource(str(path)).blocks()).decode(errors="replace")
    table = conform(read_slurm_node_table(text, str(path)).assign(date=None), NODE_ROWS_SCHEMA)
    return without_unknown_facts(to_frame(table.drop_columns(["date"])))


# What `scontrol show node` prints -----------------------------------------------------------------------


def is_slurm_node_table(text: str) -> bool:
    """Whether a text is what `scontrol show node` prints."""
    return text.lstrip().startswith(FIRST_WORD)


def read_slurm_node_table(text: str, place: str) -> pd.DataFrame:
    """Return a row a node: virtual_cluster (its first partition), nodes (1), gpus_per_node and `NODE_FACTS`.

    Nodes in no partition, on which no job can run, are left out; so is what is said of partitions. Raises
    BadInputError for a node that lacks a number, or is named twice, and where no node is left.
    """
    starts = [match.start() for match in _SLURM_RECORD.finditer(text)]
    rows = []
    seen: set[str] = set()
    for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
        # The first of each: a reason, which people write, stands last and may hold anything.
        fields: dict[str, str] = {}
        for name, value in _SLURM_FIELD.findall(text[begin:end]):
            fields.setdefault(name, value)
        node = fields.get("NodeName")
        if node is None:
            continue
        if node in seen:
            raise BadInputError(f"{place} names node {node!r} twice.", remedy="Keep one answer of scontrol.")
        seen.add(node)
        partitions = [name for name in fields.get("Partitions", "").split(",") if name and name != "(null)"]
        if partitions:
            rows.append(_slurm_row(node, partitions, fields, place))
    if not rows:
        raise BadInputError(
            f"{place} names no node of a partition.",
            remedy="Write what this prints: scontrol show node.",
        )
    return pd.DataFrame(rows)


def _slurm_row(node: str, partitions: list[str], fields: dict[str, str], place: str) -> dict[str, object]:
    gres = fields.get("Gres", "")
    numbers = {}
    for name in ("CPUTot", "RealMemory"):
        if not fields.get(name, "").isdecimal():
            raise BadInputError(
                f"{place}: node {node!r} has {name}={fields.get(name, '')!r}.", remedy="Is the file complete?"
            )
        numbers[name] = int(fields[name])
    types = dict.fromkeys(word.type for word in gpu_words(gres) if word.kind == "gpu" and word.type)
    return {
        "virtual_cluster": partitions[0],
        "nodes": 1,
        "gpus_per_node": gpus_of_gres(gres),
        "node": node,
        "partitions": ",".join(partitions) if len(partitions) > 1 else None,
        "gpu_type": "+".join(types) or None,
        "cpus_per_node": numbers["CPUTot"],
        "memory_mib_per_node": numbers["RealMemory"],
    }
