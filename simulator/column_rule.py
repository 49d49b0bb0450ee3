"""What a policy is to an engine that goes by columns: an order that stands still while jobs wait."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.workload.columns import WorkloadColumns

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GapRule:
    """How gaps are filled around the reservation of the first job that does not fit (EASY backfilling).

    `asked_s` is for how long a job is believed to run, shape (jobs,). With `steps_s` it is Tsafrir's rule:
    the mean of the user's last two jobs, at most `most_s`, and `asked_s` where none has ended (NaN: none was
    asked for); a belief that was outlived grows from step to step. Without, it is doubled.
    """

    asked_s: Floats
    most_s: Floats | None = None
    steps_s: Sequence[float] = ()
    shortest_first: bool = False


@dataclass(frozen=True, eq=False)
class PreemptionRule:
    """Jobs of the highest rank run, and preempt as many of lower rank as they need (`preempt_to_fit`).

    They rank by the least true remaining run time, or, with a `threshold_gpu_s`, by two queues: those that
    have attained less service first, and by submission in each. Decisions fall on multiples of `round_s`.
    `cost_s` is what a preemption costs a job of so many GPUs on nodes of so many, `completion_s` what an end
    does.
    """

    threshold_gpu_s: float | None
    round_s: float | None
    cost_s: Callable[[int, int], float]
    completion_s: float


@dataclass(frozen=True, eq=False)
class ColumnRule:
    """Jobs start from the front of each queue, in `order`, until one does not fit; then around it, by `gaps`.

    `order` is what jobs are sorted by, lowest first, shape (jobs,) each, the most significant first; of
    equals the one that waits longest goes first.
    """

    order: tuple[NDArray[np.float64] | NDArray[np.int64], ...] = ()
    gaps: GapRule | None = None
    preemption: PreemptionRule | None = None  # instead of both


def gpus_or_cores(jobs: WorkloadColumns) -> NDArray[np.int64]:
    """Return what jobs ask for: GPUs, or the cores of a CPU job; shape (jobs,)."""
    return np.where(jobs.gpus > 0, jobs.gpus, jobs.cpus)
