"""The lake's table of temperatures."""

from collections.abc import Iterator

import pyarrow as pa

from cluster_logs.cluster_writes import LogOrigin
from cluster_logs.day_tables import DayTable
from cluster_logs.expectations.suite import Suite, between, present

SCHEMA = pa.schema(
    [("cluster", pa.string()), ("time", pa.timestamp("us", tz="UTC")), ("celsius", pa.float64())]
)


def newest(older: pa.Table, newer: pa.Table) -> pa.Table:
    """Keep what was measured last at each moment, by time."""
    rows = {row["time"]: row for row in (*older.to_pylist(), *newer.to_pylist())}
    return pa.Table.from_pylist([rows[at] for at in sorted(rows)], schema=newer.schema)


def logs_of(rows: pa.Table) -> Iterator[LogOrigin]:
    """Temperatures are measured."""
    if rows.num_rows:
        yield LogOrigin.REAL


TABLE = DayTable(
    name="gpu_heat",
    what="temperatures of GPUs",
    schema=SCHEMA,
    time="time",
    key=("time",),
    merge=newest,
    logs_of=logs_of,
    suite=Suite(
        name="gpu_heat",
        required=("time",),
        checks=(present("celsius"), between("celsius", 0, 120)),
        failing_share=0.05,
    ),
    field="Heat",
)
