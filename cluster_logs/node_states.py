"""The table of node states: how many nodes of a cluster were busy, idle, down, asleep or booting, and when.

One row a moment and virtual cluster; without a virtual cluster it is of the whole cluster, where a node that
several own counts once. A row holds until the next one.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_table import TIMESTAMP, optional_field, required_field
from cluster_logs.merging import microseconds

PUBLISHED: Final = "published"
SLURM: Final = "slurm"
PROMETHEUS: Final = "prometheus"
DERIVED: Final = "derived"
ORIGINS = (PUBLISHED, SLURM, PROMETHEUS, DERIVED)
# What a node may be, beside busy; a source that does not tell one of them leaves it null.
OTHER_STATES = ("idle", "down", "asleep", "booting")

NODE_STATES_SCHEMA = pa.schema(
    [
        required_field("cluster", pa.string(), "The cluster whose nodes are counted."),
        optional_field(
            "virtual_cluster", pa.string(), "The virtual cluster whose nodes are counted; null: all nodes."
        ),
        required_field("time", TIMESTAMP, "When the nodes were counted."),
        required_field("total", pa.int32(), "Nodes that exist, in whatever state.", "nodes"),
        required_field("busy", pa.int32(), "Nodes that run at least one job.", "nodes"),
        optional_field("idle", pa.int32(), "Nodes that are awake and run nothing.", "nodes"),
        optional_field(
            "down", pa.int32(), "Nodes that are down, drained or draining, running none.", "nodes"
        ),
        optional_field("asleep", pa.int32(), "Nodes that are powered down, or on their way there.", "nodes"),
        optional_field("booting", pa.int32(), "Nodes that are powered up and not yet usable.", "nodes"),
        required_field(
            "held",
            pa.bool_(),
            "Telemetry is missing: `total` and `busy` are of the last count before, the others unknown.",
        ),
        required_field(
            "origin",
            pa.string(),
            "`published` in a file, counted by `slurm` or `prometheus`, or `derived` from the job table.",
        ),
    ]
)
NODE_STATE_ROWS_SCHEMA = pa.schema([field for field in NODE_STATES_SCHEMA if field.name != "cluster"])

# A cluster does not fall from so many busy nodes, and half of all it has, to none between two counts.
LEAST_BUSY_BEFORE_GAP = 10

_Ints = npt.NDArray[np.int32]
_Mask = npt.NDArray[np.bool_]


def hold_gaps(rows: pa.Table) -> pa.Table:
    """Return counts (NODE_STATE_ROWS_SCHEMA) by time, with the zeros of telemetry gaps held and flagged.

    Telemetry that fails is published as zero nodes, or as none busy (Philly: 1,081 minutes of 26 October
    2017). No nodes at all is a gap; none busy is one after a count of LEAST_BUSY_BEFORE_GAP busy nodes and
    half of all, until the next count above zero. Such rows take on what was counted last before, whole
    cluster and virtual clusters apart; what is held depends on earlier rows alone.
    """
    names = pc.dictionary_encode(pc.fill_null(rows.column("virtual_cluster"), "\0").combine_chunks())
    codes = names.indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((codes, microseconds(rows.column("time"))))
    rows, codes = rows.take(pa.array(order)), codes[order]
    total, busy, held = (rows.column(name).to_numpy().copy() for name in ("total", "busy", "held"))
    for code in range(len(names.dictionary)):
        own = np.flatnonzero(codes == code)
        total[own], busy[own], held[own] = _hold(total[own], busy[own], held[own])
    columns = {"total": pa.array(total), "busy": pa.array(busy), "held": pa.array(held)}
    for name in OTHER_STATES:
        columns[name] = pc.if_else(columns["held"], pa.scalar(None, pa.int32()), rows.column(name))
    return pa.Table.from_arrays(
        [columns.get(name, rows.column(name)) for name in rows.column_names], schema=rows.schema
    )


def _hold(total: _Ints, busy: _Ints, held: _Mask) -> tuple[_Ints, _Ints, _Mask]:
    """Return one series, by time, with its gaps held, and where it is held."""
    missing = held | (total == 0)
    last = np.maximum.accumulate(np.where(~missing & (busy > 0), np.arange(len(busy)), -1))
    before = np.where(last >= 0, busy[last], 0)
    fell = (busy == 0) & (before >= LEAST_BUSY_BEFORE_GAP) & (2 * before >= total)
    gap = missing | fell
    last = np.maximum.accumulate(np.where(gap, -1, np.arange(len(busy))))
    hold = gap & (last >= 0)
    return np.where(hold, total[last], total), np.where(hold, busy[last], busy), gap
