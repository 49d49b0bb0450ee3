"""The table of node states: how many nodes of a cluster were busy, idle, down, asleep or booting, and when.

One row a moment and virtual cluster; without a virtual cluster it is of the whole cluster, where a node that
several own counts once. A row holds until the next one.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_table import TIMESTAMP, microseconds, optional_field, required_field

PUBLISHED: Final = "published"
SLURM: Final = "slurm"
PROMETHEUS: Final = "prometheus"
DERIVED: Final = "derived"
ORIGINS = (PUBLISHED, SLURM, PROMETHEUS, DERIVED)
# More nodes than any cluster has.
MAX_NODES = 1_000_000
# What a node may be, beside busy; a source without one of them leaves it null.
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


def hold_gaps(rows: pa.Table, *, before: pa.Table | None = None) -> pa.Table:
    """Return counts by time, with the zeros of telemetry gaps held and flagged.

    Telemetry that fails is published as zero nodes, or as none busy (Philly: 1,081 minutes of 26 October
    2017). No nodes at all is a gap; none busy is one after a count of LEAST_BUSY_BEFORE_GAP busy nodes and
    half of all, until the next count above zero. Such rows take on what was counted last before, whole
    cluster and virtual clusters apart; what is held depends on earlier rows alone, of this table and of
    `before`. What Slurm was asked for, and what is derived of jobs, has no gaps of that kind.
    """
    earlier = rows.slice(0, 0) if before is None else before.select(rows.column_names)
    first = pc.min(rows.column("time"))
    earlier = earlier.filter(pc.less(earlier.column("time"), first))
    both = pa.concat_tables([earlier, rows])
    codes = _codes(both)
    order = np.lexsort((codes, microseconds(both.column("time"))))
    codes, trusted = codes[order], np.isin(both.column("origin").to_numpy()[order], (SLURM, DERIVED))
    both = both.take(pa.array(order))
    total, busy, held = (both.column(name).to_numpy().copy() for name in ("total", "busy", "held"))
    for code in np.unique(codes):
        own = np.flatnonzero(codes == code)
        total[own], busy[own], held[own] = _hold(total[own], busy[own], held[own], trusted[own])
    columns = {"total": pa.array(total), "busy": pa.array(busy), "held": pa.array(held)}
    for name in OTHER_STATES:
        columns[name] = pc.if_else(columns["held"], pa.scalar(None, pa.int32()), both.column(name))
    whole = pa.Table.from_arrays(
        [columns.get(name, both.column(name)) for name in both.column_names], schema=both.schema
    )
    return whole.filter(pa.array(order >= earlier.num_rows))


def merge_node_states(older: pa.Table, newer: pa.Table) -> pa.Table:
    """Return the counts of one day by time, the whole cluster before its virtual clusters.

    Counts stand above derived ones: a day with any holds no others. Derived counts replace the day's as a
    whole; of two counts of one time and virtual cluster the newer wins, unless it is held and the older not.
    """
    counted = [table.filter(pc.not_equal(table.column("origin"), DERIVED)) for table in (older, newer)]
    both = pa.concat_tables(counted if any(table.num_rows for table in counted) else [newer])
    keys = (_codes(both), microseconds(both.column("time")))
    counted_then = ~both.column("held").to_numpy()
    order = np.lexsort((np.arange(both.num_rows), counted_then, *keys))
    last = np.append(np.any([np.diff(key[order]) != 0 for key in keys], axis=0), True)
    return both.take(pa.array(order[last[: both.num_rows]]))


def _codes(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the number of each row's virtual cluster, in the order of names; the whole cluster is -1."""
    owners = rows.column("virtual_cluster")
    names = pc.unique(owners).drop_null().to_pylist()
    places = pc.index_in(owners, value_set=pa.array(sorted(names), pa.string()))
    return pc.fill_null(places, -1).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _hold(total: _Ints, busy: _Ints, held: _Mask, trusted: _Mask) -> tuple[_Ints, _Ints, _Mask]:
    """Return one series, by time, with its gaps held, and where it is held."""
    missing = held | ((total == 0) & ~trusted)
    last = np.maximum.accumulate(np.where(~missing & (busy > 0), np.arange(len(busy)), -1))
    before = np.where(last >= 0, busy[last], 0)
    fell = (busy == 0) & ~trusted & (before >= LEAST_BUSY_BEFORE_GAP) & (2 * before >= total)
    gap = missing | fell
    last = np.maximum.accumulate(np.where(gap, -1, np.arange(len(busy))))
    hold = gap & (last >= 0)
    return np.where(hold, total[last], total), np.where(hold, busy[last], busy), gap
