"""A sequence of node counts: CSV time, busy (active, running), total (nodes), as Philly's and Earth's were
published with the Helios artifact; where there is one, virtual_cluster (vc), and idle, down, asleep, booting.

Times may be text or seconds since 1970; other columns are not read. What is missing in between is not a row.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.node_states import MAX_NODES, NODE_STATE_ROWS_SCHEMA, OTHER_STATES, PUBLISHED
from cluster_logs.readers.base import Context, Reader
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import FloatArray, RowChecker
from cluster_logs.readers.source import NOT_A_TIME

# Where a file has both, `running` run jobs and `active` are awake (results of Helios' control).
_BUSY, _TOTAL, _OWNER = "busy|running|active", "total|nodes", "virtual_cluster|vc"


def _counts(checker: RowChecker, columns: Sequence[str]) -> list[FloatArray]:
    counts = []
    for column in columns:
        values = checker.number(column)
        checker.reject(values < 0, q.NEGATIVE_COUNT, column)
        checker.reject(values > MAX_NODES, q.IMPLAUSIBLE_COUNT, column)
        checker.reject(values % 1 > 0, q.UNREADABLE_NUMBER, column)
        counts.append(values)
    return counts


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    times = checker.instant_or_seconds("time")
    checker.reject(times == NOT_A_TIME, q.MISSING_TIME, "time")
    busy_column, total_column = checker.first_of(_BUSY), checker.first_of(_TOTAL)
    others = [name for name in OTHER_STATES if name in checker]
    busy, total, *other_counts = _counts(checker, (busy_column, total_column, *others))
    checker.reject(np.isnan(busy), q.MISSING_COUNT, busy_column)
    checker.reject(np.isnan(total), q.MISSING_COUNT, total_column)
    stated = np.nansum([busy, *other_counts], axis=0)
    checker.reject(stated > total, q.MORE_NODES_THAN_TOTAL, total_column)
    owner = checker.optional_text(checker.first_of(_OWNER))
    kept_rows = checker.kept()
    rows = int(kept_rows.sum())
    columns = {
        "virtual_cluster": pa.nulls(rows, pa.string())
        if owner is None
        else owner.filter(pa.array(kept_rows)),
        "time": pa.array(times[kept_rows]).cast(pa.timestamp("us", tz="UTC")),
        "held": pa.repeat(pa.scalar(False), rows),
        "origin": pa.repeat(pa.scalar(PUBLISHED, pa.string()), rows),
    }
    for name, values in zip(("busy", "total", *others), (busy, total, *other_counts), strict=True):
        columns[name] = pa.array(values[kept_rows], pa.float64(), from_pandas=True).cast(pa.int32())
    return pa.Table.from_arrays(
        [columns.get(field.name, pa.nulls(rows, field.type)) for field in NODE_STATE_ROWS_SCHEMA],
        schema=NODE_STATE_ROWS_SCHEMA,
    )


READER = Reader(
    name="node-sequence",
    summary="Node counts over time (CSV time, busy or active or running, total)",
    table="node_states",
    time_zone="UTC",
    chunks=Layout(required=("time", _BUSY, _TOTAL), optional=(_OWNER, *OTHER_STATES)),
    normalise=_normalise,
)
