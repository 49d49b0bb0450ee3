"""Nodes in use as a regular series: minutes or bins of one length, with gaps in the telemetry held.

Energy saving acts on 10-minute bins, each the highest of its minutes and named by its start (Helios, section
4.3); the control of the published artifact takes a gap's zeros for idle nodes, which `gaps="zero"` repeats.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_table import conform, microseconds
from cluster_logs.node_states import NODE_STATE_ROWS_SCHEMA, hold_gaps
from cluster_logs.readers.base import ReadOptions, read_chunks
from cluster_logs.readers.node_sequence import READER
from cluster_logs.readers.nodes_file import every_row
from foundation.errors import BadInputError, UnknownNameError

Gaps = Literal["hold", "zero"]
BIN_S = 600
# More than fifty years of minutes: one row with a wrong year must not make more.
MOST_STEPS = 30_000_000

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NodeSeries:
    """Nodes in use, one value a step; arrays of shape (steps,).

    - `start_s`: start of the first step, seconds since 1970; a step is [start, start + `step_s`).
    - `running`: nodes that ran a job; `total`: nodes that were neither down nor drained.
    - `held`: steps that nothing was counted in; their nodes are those of the last count before.
    """

    start_s: float
    step_s: float
    running: _Floats
    total: _Floats
    held: npt.NDArray[np.bool_]

    @property
    def times_s(self) -> _Floats:
        """Return the start of each step, seconds since 1970."""
        return self.start_s + self.step_s * np.arange(len(self.running), dtype=np.float64)

    def first(self, steps: int) -> "NodeSeries":
        """Return the first `steps` steps."""
        part = slice(0, steps)
        return NodeSeries(self.start_s, self.step_s, self.running[part], self.total[part], self.held[part])

    def bins(self, bin_s: float = BIN_S) -> "NodeSeries":
        """Return bins of `bin_s` from whole multiples of it on: the highest of the steps that were counted.

        A bin without any is held: it is as the last bin with one. The first and the last may be of fewer
        steps. Raises BadInputError where a bin is not a whole number of steps.
        """
        steps = round(bin_s / self.step_s)
        if steps < 1 or steps * self.step_s != bin_s:
            raise BadInputError(
                f"A bin of {bin_s:g} s is not a whole number of steps of {self.step_s:g} s.",
                remedy="Choose a multiple of the step.",
            )
        numbers = (self.times_s // bin_s).astype(np.int64)
        first = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
        held = np.logical_and.reduceat(self.held, first)
        last = np.maximum.accumulate(np.where(held, 0, np.arange(len(first))))

        def highest(values: _Floats) -> _Floats:
            counted = np.maximum.reduceat(np.where(self.held, -np.inf, values), first)
            return np.where(np.isfinite(counted), counted, values[first])[last]

        return NodeSeries(
            float(numbers[0] * bin_s), float(bin_s), highest(self.running), highest(self.total), held
        )


def read_node_series(
    source: str | Path | pd.DataFrame | pa.Table,
    *,
    gaps: Gaps = "hold",
    step_s: float | None = None,
    virtual_cluster: str | None = None,
    time_zone: str = "UTC",
) -> NodeSeries:
    """Return the nodes in use over the time of a node sequence: a file, or rows of the table `node_states`.

    `step_s`: default: the most frequent distance of two rows; of several counts in a step the highest
    stands. Without a `virtual_cluster` it is the whole cluster: its own rows, or else the sum over virtual
    clusters. `gaps`: steps that were not counted are held, or (`zero`) count as running nothing, as artifacts
    read them.
    `time_zone` is the clock of a file's times. Raises BadInputError for a row that cannot be used, and for
    a source that has none of these nodes.
    """
    if gaps not in ("hold", "zero"):
        raise UnknownNameError("treatment of gaps", gaps, ("hold", "zero"))
    if isinstance(source, str | Path):
        rows, place = read_node_sequence(str(source), time_zone), str(source)
    else:
        rows, place = conform(source, NODE_STATE_ROWS_SCHEMA, what="table of node states"), "The table"
    counts = _counts_of(hold_gaps(rows), virtual_cluster)
    if counts.empty:
        which = "nodes" if virtual_cluster is None else f"nodes of virtual cluster {virtual_cluster!r}"
        raise BadInputError(f"{place} counts no {which}.", remedy="Name another, or ingest node states.")
    series = _on_grid(counts, step_s, place)
    if gaps == "zero":
        return replace(
            series, running=np.where(series.held, 0.0, series.running), held=np.zeros_like(series.held)
        )
    return series


def read_node_sequence(path: str, time_zone: str = "UTC") -> pa.Table:
    """Return the counts of a node sequence as they stand in its file (NODE_STATE_ROWS_SCHEMA).

    `time_zone` is the clock of its times. Raises BadInputError for a row that cannot be used.
    """
    chunks = read_chunks(READER, path, ReadOptions("nodes", time_zone))
    return pa.concat_tables(
        [NODE_STATE_ROWS_SCHEMA.empty_table(), *(every_row(chunk, path) for chunk in chunks)]
    )


def _counts_of(rows: pa.Table, virtual_cluster: str | None) -> pd.DataFrame:
    """Return running, total and held by time (microseconds), of one virtual cluster or of all nodes."""
    owner = rows.column("virtual_cluster")
    if virtual_cluster is not None:
        rows = rows.filter(pc.equal(owner, virtual_cluster))
    elif owner.null_count:
        rows = rows.filter(pc.is_null(owner))
    usable = pc.subtract(rows.column("total"), pc.fill_null(rows.column("down"), 0))
    counts = pd.DataFrame(
        {
            "time_us": microseconds(rows.column("time")),
            "running": rows.column("busy").to_numpy().astype(np.float64),
            "total": usable.to_numpy().astype(np.float64),
            "held": rows.column("held").to_numpy(),
        }
    )
    grouped = counts.groupby("time_us", sort=True)
    return grouped.agg({"running": "sum", "total": "sum", "held": "any"}).reset_index()


def _on_grid(counts: pd.DataFrame, step_s: float | None, place: str) -> NodeSeries:
    times_us = counts["time_us"].to_numpy()
    step_us = round(step_s * 1e6) if step_s is not None else _usual_distance(times_us)
    if step_us < 1:
        raise BadInputError(f"A step of {step_s} s.", remedy="Use a step above 0.")
    numbers = times_us // step_us
    steps = int(numbers[-1] - numbers[0]) + 1
    if steps > MOST_STEPS:
        begin, end = (datetime.fromtimestamp(at / 1e6, UTC).isoformat() for at in times_us[[0, -1]])
        raise BadInputError(
            f"{place} counts nodes from {begin} to {end}: {steps:,} steps of {step_us / 1e6:g} s.",
            remedy="Correct the row with the wrong time, or choose a longer step.",
        )
    cell = numbers - numbers[0]
    counted = ~counts["held"].to_numpy()
    held = np.ones(steps, dtype=np.bool_)
    held[cell[counted]] = False
    # A gap's own rows count where their step has no other; they hold what came before.
    use = counted | held[cell]
    values = {}
    for name in ("running", "total"):
        series = np.full(steps, -np.inf)
        np.maximum.at(series, cell[use], counts[name].to_numpy()[use])
        last = np.maximum.accumulate(np.where(np.isfinite(series), np.arange(steps), 0))
        values[name] = series[last]
    return NodeSeries(
        float(numbers[0] * step_us / 1e6), step_us / 1e6, values["running"], values["total"], held
    )


def _usual_distance(times_us: npt.NDArray[np.int64]) -> int:
    """Return the most frequent distance of two rows, the shorter of two; of a single row a bin."""
    distances, counts = np.unique(np.diff(times_us), return_counts=True)
    return int(distances[np.argmax(counts)]) if len(distances) else BIN_S * 1_000_000
