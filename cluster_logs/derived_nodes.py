"""Nodes in use derived from the job table, where none were counted: the fewest that hold its running jobs.

At any instant a virtual cluster's running jobs need at least ceil(their GPUs / GPUs per node) nodes: a lower
bound, which consolidated placement comes near and spread jobs exceed. A step is as its highest instant.
Jobs without GPUs use no node. A job that has not ended runs until the log's end; what comes later changes no
earlier step.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.node_states import DERIVED, NODE_STATE_ROWS_SCHEMA
from cluster_logs.quarantine import Accounting
from foundation.errors import BadInputError

COLUMNS = ("virtual_cluster", "gpus", "state", "submit_time", "start_time", "end_time")
STEP_S = 600
# Ten years of ten minutes: one job with a wrong year must not make more.
MOST_STEPS = 600_000

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ClusterSizeFrom:
    """The nodes of each virtual cluster, and the GPUs in each, from a moment on (seconds since 1970)."""

    from_s: float
    nodes: Mapping[str, int]
    gpus_per_node: Mapping[str, int]


@dataclass(frozen=True)
class _Use:
    """GPUs in use: `gpus[i]` from `time_us[i]` on."""

    time_us: _Ints
    gpus: _Ints

    def highest(self, steps_us: _Ints, step_us: int) -> _Ints:
        """Return the most GPUs in use at any instant of each step."""
        before = np.searchsorted(self.time_us, steps_us, side="right") - 1
        most = np.where(before >= 0, self.gpus[before], 0)
        inside = (self.time_us - steps_us[0]) // step_us
        among = (inside >= 0) & (inside < len(steps_us))
        np.maximum.at(most, inside[among], self.gpus[among])
        return most


def derive_node_states(
    jobs: Iterable[pa.Table], sizes: Sequence[ClusterSizeFrom], *, step_s: int = STEP_S
) -> tuple[pa.Table, Accounting]:
    """Return counts (NODE_STATE_ROWS_SCHEMA) from the first start to the log's end, and the jobs' account.

    `jobs`: tables with COLUMNS, any order; `sizes`: by time. Kept are jobs that ran on GPUs of a virtual
    cluster with known nodes. Raises BadInputError when none did.
    """
    account = Accounting()
    spans, end_us = _spans(jobs, {name for size in sizes for name in size.nodes}, account)
    account.check("jobs of which nodes in use are derived")
    if not spans:
        raise BadInputError(
            "No job's start on GPUs of a virtual cluster with known nodes is known.",
            remedy="Nodes in use cannot be derived from this log; ingest counts of nodes.",
        )
    step_us = step_s * 1_000_000
    first = min(int(starts.min()) for starts, _, _ in spans.values()) // step_us
    steps = (end_us - 1) // step_us - first + 1
    if steps > MOST_STEPS:
        raise BadInputError(
            f"The log lasts for {steps:,} steps of {step_s} s from its first start to its last event.",
            remedy="Is a job's time wrong? Or choose longer steps.",
        )
    steps_us = (first + np.arange(max(steps, 1))) * step_us
    rows, whole = [], {"total": np.zeros(len(steps_us), np.int64), "busy": np.zeros(len(steps_us), np.int64)}
    for name in sorted({name for size in sizes for name in size.nodes}):
        total, per_node = _sizes_over(sizes, name, steps_us)
        busy = np.zeros(len(steps_us), np.int64)
        if name in spans:
            gpus = _use(*spans[name], end_us).highest(steps_us, step_us)
            busy = np.minimum(-(-gpus // per_node), total)
        whole["total"] += total
        whole["busy"] += busy
        rows.append(_rows(name, steps_us, total, busy))
    return pa.concat_tables([_rows(None, steps_us, whole["total"], whole["busy"]), *rows]), account


def _spans(
    jobs: Iterable[pa.Table], names: set[str], account: Accounting
) -> tuple[dict[str, tuple[_Ints, _Ints, _Ints]], int]:
    """Return start, end (-1: not yet) and GPUs of the jobs of each virtual cluster, and the log's end."""
    parts: list[pd.DataFrame] = []
    end_us = 0
    for table in jobs:
        frame = pd.DataFrame(
            {
                name: pc.fill_null(table.column(name).cast(pa.int64()), -1).to_numpy()
                for name in ("submit_time", "start_time", "end_time")
            }
        )
        frame["gpus"] = table.column("gpus").to_numpy().astype(np.int64)
        frame["owner"] = table.column("virtual_cluster").to_pandas()
        end_us = max(end_us, int(frame[["submit_time", "start_time", "end_time"]].max().max()) + 1)
        runs = table.column("state").to_pandas().isin(["RUNNING"])
        reasons = np.select(
            [
                frame["gpus"] < 1,
                ~frame["owner"].isin(names),
                frame["start_time"] < 0,
                (frame["end_time"] < 0) & ~runs,
            ],
            [q.NO_GPU, q.UNKNOWN_NODES, q.NOT_STARTED, q.NO_END],
            default="",
        )
        counted = Counter(reasons.tolist())
        account.rows_in += len(frame)
        account.kept += counted.pop("", 0)
        account.skipped.update(counted)
        parts.append(frame[reasons == ""])
    every = pd.concat(parts) if parts else pd.DataFrame({"owner": []})
    return {
        str(owner): (
            own["start_time"].to_numpy(), own["end_time"].to_numpy(), own["gpus"].to_numpy()
        )
        for owner, own in every.groupby("owner", sort=True)
    }, end_us  # fmt: skip


def _use(starts: _Ints, ends: _Ints, gpus: _Ints, end_us: int) -> _Use:
    times = np.concatenate([starts, np.where(ends < 0, end_us, ends)])
    changes = np.concatenate([gpus, -gpus])
    order = np.argsort(times, kind="stable")
    in_use = np.cumsum(changes[order])
    # A job that ends and one that starts at one instant do not run together.
    last = np.append(np.diff(times[order]) != 0, True)
    return _Use(times[order][last], in_use[last])


def _sizes_over(sizes: Sequence[ClusterSizeFrom], name: str, steps_us: _Ints) -> tuple[_Ints, _Ints]:
    """Return the nodes, and GPUs in each, at each step; the first size holds before it, too."""
    place = np.searchsorted([size.from_s * 1e6 for size in sizes], steps_us, side="right") - 1
    place = np.maximum(place, 0)
    per_node = next(size.gpus_per_node[name] for size in sizes if name in size.gpus_per_node)
    total = np.array([size.nodes.get(name, 0) for size in sizes], np.int64)[place]
    gpus = np.array([size.gpus_per_node.get(name, per_node) for size in sizes], np.int64)[place]
    return total, gpus


def _rows(owner: str | None, steps_us: _Ints, total: _Ints, busy: _Ints) -> pa.Table:
    rows = len(steps_us)
    columns = {
        "virtual_cluster": pa.array([owner] * rows, pa.string()),
        "time": pa.array(steps_us).cast(pa.timestamp("us", tz="UTC")),
        "total": pa.array(total.astype(np.int32)),
        "busy": pa.array(busy.astype(np.int32)),
        "held": pa.repeat(pa.scalar(False), rows),
        "origin": pa.repeat(pa.scalar(DERIVED, pa.string()), rows),
    }
    arrays = [columns.get(column.name, pa.nulls(rows, column.type)) for column in NODE_STATE_ROWS_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=NODE_STATE_ROWS_SCHEMA)
