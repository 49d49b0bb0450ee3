"""The lake's table of inference load."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.cluster_record import LogOrigin
from cluster_logs.day_tables import DayTable
from cluster_logs.expectations.job_suites import FIRST, LAST
from cluster_logs.expectations.suite import Suite, between, has_rows, one_of, present, unique_together
from cluster_logs.node_states import MAX_NODES
from parts.lending.load.synthetic import synthetic_inference_load
from parts.lending.load.table import INFERENCE_LOAD_SCHEMA, ORIGINS, SYNTHETIC, merge_inference_load

INFERENCE_LOAD = Suite(
    name="inference_load",
    required=("time", "usage", "gap", "origin"),
    checks=(
        present("time"),
        between("time", FIRST, LAST),
        present("usage"),
        between("usage", 0, 1),
        between("servers", 0, MAX_NODES),
        one_of("origin", ORIGINS),
        has_rows(),
        unique_together("bin_is_there_once", "time"),
    ),
    failing_share=0.05,
)


def _logs_of(rows: pa.Table) -> Iterator[LogOrigin]:
    for made in pc.unique(pc.equal(rows.column("origin"), SYNTHETIC)).to_pylist():
        yield LogOrigin.SYNTHETIC if made else LogOrigin.REAL


TABLE = DayTable(
    name="inference_load",
    what="load of inference servers",
    schema=INFERENCE_LOAD_SCHEMA,
    time="time",
    key=("time",),
    merge=merge_inference_load,
    logs_of=_logs_of,
    suite=INFERENCE_LOAD,
    field="Load of inference",
    other_sources=", or Prometheus",
    synthetic=synthetic_inference_load,
)
