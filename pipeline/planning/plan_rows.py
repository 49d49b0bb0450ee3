"""The table of a plan: a row a replay, with waits, intervals, energy, and the command that repeats it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.planning.planned_log import PlannedLog
from pipeline.planning.planned_part import planned_parts
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.replays import Replayed
from pipeline.planning.size_search import isotonic_falling
from pipeline.studies.wait_target import (
    METRICS,
    Resampling,
    WaitInterval,
    WaitTarget,
    interval_of,
    interval_of_change,
    metric_of,
)
from simulator.energy import EnergySettings

# Of jobs that figures are of, and of those that are counted apart.
JOB_COUNTS = ("jobs", "left_waiting", "would_have_started", "warm_up_jobs")


@dataclass(frozen=True)
class Prices:
    """What energy costs, and (if given) a node for a day, in the site's currency."""

    energy: EnergySettings = field(default_factory=EnergySettings)
    node_day: float = 0.0


@dataclass(frozen=True)
class PlanTable:
    """Makes rows of replays.

    `kwh` is what powered nodes draw from second 0 to the last submission at their idle draw, with cooling;
    what computing draws beyond that is the same in all rows. `command_of` says how to repeat a run.
    """

    log: PlannedLog
    target: WaitTarget
    resampling: Resampling
    prices: Prices
    command_of: Callable[[PlannedRun], str]

    @cached_property
    def blocks(self) -> NDArray[np.int64]:
        """Number the block that each job belongs to."""
        jobs = self.log.jobs
        submitted_s = np.array([job.submit_time_s for job in jobs], dtype=np.float64)
        names = np.array([job.virtual_cluster for job in jobs], dtype=object)
        return self.resampling.blocks(submitted_s, names)

    def interval(self, replayed: Replayed) -> WaitInterval:
        """Return the interval of the target's metric."""
        return interval_of(self.target.metric, replayed.waits_s, self.blocks, self.resampling)

    def change(self, metric: str, replayed: Replayed, reference: Replayed) -> dict[str, float | None]:
        """Return by how much a metric is above that of another replay of the same jobs, with its interval."""
        interval = interval_of_change(
            metric, replayed.waits_s, reference.waits_s, self.blocks, self.resampling
        )
        point = metric_of(metric, replayed.waits_s) - metric_of(metric, reference.waits_s)
        return {"added_s": point, "low": interval.low, "high": interval.high}

    def kwh(self, replayed: Replayed) -> float:
        """Return the energy of its powered nodes."""
        energy = self.prices.energy
        off = sum(part.nodes_off(replayed.figures) for part in planned_parts())
        powered = replayed.run.total_nodes - off
        return float(powered * energy.idle_w * energy.cooling_factor * 24 / 1_000 * self.log.days)

    def cost(self, replayed: Replayed) -> float:
        """Return what energy and nodes cost over the log's days."""
        nodes = replayed.run.total_nodes * self.prices.node_day * self.log.days
        return nodes + self.kwh(replayed) * self.prices.energy.price_per_kwh

    def row(self, replayed: Replayed) -> dict[str, Any]:
        """Return a row without what depends on the others."""
        run, interval = replayed.run, self.interval(replayed)
        return {
            "nodes": run.total_nodes,
            "variant": run.variant,
            "policy": run.policy,
            **{f"{metric}_wait_s": metric_of(metric, replayed.waits_s) for metric in METRICS},
            "low": interval.low,
            "high": interval.high,
            "reliable": interval.reliable,
            "holds": self.target.holds(self.target.of(replayed.waits_s)),
            "kwh": self.kwh(replayed),
            "cost": self.cost(replayed),
            "utilisation_pct": replayed.figures["utilisation_pct"],
            **{name: replayed.figures[name] for name in _own_figures() if name in replayed.figures},
            **{name: replayed.figures[name] for name in JOB_COUNTS if name in replayed.figures},
            "virtual_clusters": dict(run.nodes),
            "command": self.command_of(run),
        }

    def rows(self, replayed: Sequence[Replayed]) -> list[dict[str, Any]]:
        """Return the rows of one variant by size, with the falling sequence nearest to its waits.

        `breaks` marks a row that waits for longer than the one before although it has more nodes;
        `within_interval` says whether the intervals of both allow for that.
        """
        rows = [self.row(each) for each in sorted(replayed, key=lambda each: each.run.total_nodes)]
        waits = [float(row[self.target.column]) for row in rows]
        for i, (row, smooth) in enumerate(zip(rows, isotonic_falling(waits), strict=True)):
            row["isotonic_wait_s"] = smooth
            row["breaks"] = i > 0 and waits[i] > waits[i - 1]
            row["within_interval"] = not row["breaks"] or _overlap(rows[i - 1], row)
        return rows


def _own_figures() -> tuple[str, ...]:
    of_parts = (name for part in reversed(planned_parts()) for name in part.figures)
    return (*of_parts, "preemptions")


def mark_front(rows: Sequence[dict[str, Any]], wait: str) -> None:
    """Say of each row whether it is on the Pareto front of nodes, energy and waits (`on_front`).

    It is, unless another needs no more nodes, no more energy and no longer waits, and less of one. Of rows
    that are equal in all three the first is.
    """
    points = [(row["nodes"], row["kwh"], row[wait]) for row in rows]
    for i, (row, point) in enumerate(zip(rows, points, strict=True)):
        row["on_front"] = not any(
            all(theirs <= own for theirs, own in zip(other, point, strict=True)) and (other != point or j < i)
            for j, other in enumerate(points)
            if j != i
        )


def _overlap(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return before["high"] is None or after["low"] is None or after["low"] <= before["high"]
