"""The table of inference load: which share of a pool of inference servers its requests occupied, and when.

One row a bin of time; a row holds until the next one. What the source calls a gap is kept and flagged:
nothing was measured then, and what is learned or judged is none of it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cluster_logs.job_table import TIMESTAMP, microseconds, optional_field, required_field
from cluster_logs.node_states import MAX_NODES
from foundation.errors import BadInputError

PUBLISHED: Final = "published"
PROMETHEUS: Final = "prometheus"
SYNTHETIC: Final = "synthetic"
ORIGINS = (PUBLISHED, PROMETHEUS, SYNTHETIC)

INFERENCE_LOAD_SCHEMA = pa.schema(
    [
        required_field("cluster", pa.string(), "The cluster of these inference servers."),
        required_field("time", TIMESTAMP, "Start of the bin; it lasts until the next row."),
        required_field(
            "usage", pa.float64(), "Share of the servers that inference occupies, 0 to 1.", "share"
        ),
        optional_field(
            "servers", pa.int32(), "Servers of the pool; null: the source does not say.", "servers"
        ),
        required_field("gap", pa.bool_(), "The source did not measure this bin; `usage` is its stand-in."),
        required_field(
            "origin",
            pa.string(),
            "`published` in a file, measured by `prometheus`, or `synthetic`.",
        ),
    ]
)
INFERENCE_LOAD_ROWS_SCHEMA = pa.schema([field for field in INFERENCE_LOAD_SCHEMA if field.name != "cluster"])

# What a pool is taken to be at on average where only its requests are known (Lyra: 65 % of its servers), and
# the most that they can make of it.
MEAN_USAGE = 0.65
MOST_USAGE = 0.98
# The column of a file with requests a second, unless it is named otherwise.
RATES: Final = "requests_per_s"
# More requests a second than any service answers.
MAX_RATE = 1e12


@dataclass(frozen=True)
class LoadReading:
    """What is known of a pool beside its file or server.

    `servers`: how many it has, where the source does not say. `full_load_per_s`: requests a second that
    occupy all servers; None: so many that the usage is MEAN_USAGE on average. `zeros_are_gaps`: a load of
    exactly zero was not measured. `rates_column`: of a file, with requests a second; it stands above `usage`
    where it is another one.
    """

    servers: int | None = None
    full_load_per_s: float | None = None
    zeros_are_gaps: bool = False
    rates_column: str = RATES

    def __post_init__(self) -> None:
        if self.servers is not None and not 1 <= self.servers <= MAX_NODES:
            raise BadInputError(
                f"{self.servers} inference servers.", remedy=f"Give a number from 1 to {MAX_NODES:,}."
            )
        if self.full_load_per_s is not None and not 0 < self.full_load_per_s <= MAX_RATE:
            raise BadInputError(
                f"A full load of {self.full_load_per_s:g} requests a second.",
                remedy="Give the requests a second that occupy all servers, above 0.",
            )


def merge_inference_load(older: pa.Table, newer: pa.Table) -> pa.Table:
    """Return the bins of one day by time; of two of one time the newer wins, unless it is a gap and the older
    is none.
    """
    both = pa.concat_tables([older, newer])
    times = microseconds(both.column("time"))
    measured = ~both.column("gap").to_numpy()
    order = np.lexsort((np.arange(len(times)), measured, times))
    last = np.append(np.diff(times[order]) != 0, True)[: len(times)]
    return both.take(pa.array(order[last]))
