"""The lake's table of inference load."""

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.cluster_writes import LogOrigin
from cluster_logs.day_tables import DayTable
from cluster_logs.expectations.job_suites import FIRST, LAST
from cluster_logs.expectations.suite import Suite, between, has_rows, one_of, present, unique_together
from cluster_logs.node_states import MAX_NODES
from parts.lending.load.series import BIN_S
from parts.lending.load.table import (
    INFERENCE_LOAD_SCHEMA,
    MEAN_USAGE,
    MOST_USAGE,
    ORIGINS,
    SYNTHETIC,
    merge_inference_load,
)

# The load of a synthetic pool is not measured. It imitates what Lyra (section 2, figure 1) reports of its
# clusters and what public fleets show: a low before dawn and a high in the evening, 0.4 to 0.9 of the servers
# at 0.65 on average, quieter weekends, swings over hours, and jumps of a few minutes.

_DAY_BINS = 86_400 // BIN_S
_SWING, _PEAK_H = 0.23, 19.0
_WEEKEND = -0.06
# Of the swings over hours: how much of one stays to the next bin, and how far they go.
_STAYS, _SPREAD = 0.985, 0.045
_JITTER = 0.012
_JUMPS_A_DAY, _JUMP, _JUMP_STAYS = 2.0, 0.10, 0.7
# Inference servers for each training server (Lyra, section 7.1: 4,160 and 3,544 GPUs).
SERVERS_A_NODE = 520 / 443


def synthetic_inference_load(first_day: datetime, days: int, seed: int, training_nodes: int) -> pd.DataFrame:
    """Return the table `inference_load` of so many days; a longer one begins with a shorter one."""
    usage = np.empty(days * _DAY_BINS)
    swing = jump = 0.0
    for day in range(days):
        random = np.random.default_rng([seed, 5, day])
        shocks = random.standard_normal((3, _DAY_BINS))
        begins = random.random(_DAY_BINS) < _JUMPS_A_DAY / _DAY_BINS
        heights = random.exponential(_JUMP, _DAY_BINS)
        hours = np.arange(_DAY_BINS) * BIN_S / 3600
        usual = MEAN_USAGE + _SWING * np.cos((hours - _PEAK_H) / 12 * np.pi)
        usual += _WEEKEND * ((first_day.weekday() + day) % 7 >= 5)
        for index in range(_DAY_BINS):
            swing = _STAYS * swing + _SPREAD * np.sqrt(1 - _STAYS**2) * shocks[0, index]
            jump = _JUMP_STAYS * jump + heights[index] * begins[index]
            usage[day * _DAY_BINS + index] = usual[index] + swing + jump + _JITTER * shocks[1, index]
    return pd.DataFrame(
        {
            "time": pd.date_range(first_day, periods=usage.size, freq=f"{BIN_S}s").as_unit("us"),
            "usage": np.clip(usage, 0.05, MOST_USAGE).round(5),
            "servers": np.int32(max(1, round(training_nodes * SERVERS_A_NODE))),
            "gap": False,
            "origin": SYNTHETIC,
        }
    )


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
