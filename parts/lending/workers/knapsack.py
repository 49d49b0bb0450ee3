"""Phase 2 of Lyra's scheduler: how many flexible workers each elastic job gets (section 5.2).

A multiple-choice knapsack: the GPUs that base demand leaves are the capacity, and a job is a group of which
at most one item is taken, i more workers at the value that these have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError

TOLERANCE = 1e-9  # by which a value must be higher to count as better


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """An elastic job's choices: GPUs of one more worker, and the value of 1, 2, ... more workers."""

    gpus_per_worker: int
    values: Sequence[float]


def saved_time_values(remaining_s: Sequence[float], exponent: float = 0.0) -> list[float]:
    """Return the values of 1, 2, ... more workers, from the remaining run times (s) with 0, 1, 2, ... more.

    The paper's value is the time that they save (exponent 0, figure 6). Divided by a power of the remaining
    run time it prefers jobs that soon end: with an exponent of 1.5 mean completion times are shorter
    (docs/policies.md). A job with nothing left to do has no use for more workers.
    """
    base_s = remaining_s[0]
    if base_s <= 0:
        return [0.0] * (len(remaining_s) - 1)
    return [(base_s - with_more_s) / base_s**exponent for with_more_s in remaining_s[1:]]


def choose_workers(groups: Sequence[WorkerGroup], capacity_gpus: int) -> tuple[int, ...]:
    """Return more workers by group: the most valuable choice that takes at most `capacity_gpus`.

    Give the groups in the order of submission. Of equal choices (within `TOLERANCE`) it is the one with
    fewer GPUs, then the one that gives a later group fewer workers.

    Raises BadInputError for a capacity below zero, GPUs below one and a value that is not finite.
    """
    if capacity_gpus < 0:
        raise BadInputError(f"The capacity is {capacity_gpus} GPUs.", remedy="Use 0 or more.")
    for at, group in enumerate(groups):
        if group.gpus_per_worker < 1 or not isfinite(sum(group.values)):
            raise BadInputError(
                f"Group {at} has workers of {group.gpus_per_worker} GPUs with values {list(group.values)!r}.",
                remedy="Use 1 GPU or more, and finite values.",
            )
    # Beyond what all groups could take, more GPUs change nothing.
    wanted_gpus = sum(group.gpus_per_worker * len(group.values) for group in groups)
    most_gpus = min(capacity_gpus, wanted_gpus)
    if most_gpus == wanted_gpus and all(map(_always_rises, groups)):
        return tuple(len(group.values) for group in groups)
    best, workers_by_gpus = _tables(groups, most_gpus)
    gpus = int(np.argmax(best >= best[most_gpus] - TOLERANCE))
    extra_workers = []
    for group, workers in zip(reversed(groups), reversed(workers_by_gpus), strict=True):
        extra_workers.append(int(workers[gpus]))
        gpus -= extra_workers[-1] * group.gpus_per_worker
    return tuple(reversed(extra_workers))


def _always_rises(group: WorkerGroup) -> bool:
    """Whether each worker more is worth something."""
    return all(more > less + TOLERANCE for less, more in pairwise((0.0, *group.values)))


def _tables(
    groups: Sequence[WorkerGroup], most_gpus: int
) -> tuple[NDArray[np.float64], list[NDArray[np.int32]]]:
    """Return the best value by GPUs (0..most_gpus), and by group the workers that it has there."""
    best = np.zeros(most_gpus + 1)
    workers_by_gpus = []
    for group in groups:
        before = best
        best = before.copy()
        workers = np.zeros(most_gpus + 1, dtype=np.int32)
        for more, value in enumerate(group.values, start=1):
            gpus = more * group.gpus_per_worker
            if gpus > most_gpus:
                break
            with_more = before[: most_gpus + 1 - gpus] + value
            better = with_more > best[gpus:] + TOLERANCE
            np.copyto(best[gpus:], with_more, where=better)
            workers[gpus:][better] = more
        workers_by_gpus.append(workers)
    return best, workers_by_gpus
