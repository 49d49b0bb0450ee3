"""How busy a cluster is over time: GPUs in use, jobs that wait, and the GPUs that they wait for."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.cluster.placement import Placement
from simulator.job_view import JobView
from simulator.recorder import Recorder, StopReason
from simulator.snapshot import NodePool


class StepLog:
    """Whole numbers over time; of several changes at one moment the last stands."""

    def __init__(self, values: int) -> None:
        """There are so many values."""
        self._at_s = array("d")
        self._rows = tuple(array("l") for _ in range(values))

    def __bool__(self) -> bool:
        return bool(self._at_s)

    def note(self, now_s: float, values: Sequence[int]) -> None:
        """Write down what holds from now on."""
        if self._at_s and self._at_s[-1] == now_s:
            for row, value in zip(self._rows, values, strict=True):
                row[-1] = value
        else:
            self._at_s.append(now_s)
            for row, value in zip(self._rows, values, strict=True):
                row.append(value)

    def steps(self) -> list[NDArray[np.float64]]:
        """Return the moments (s), then each value from then on; equal lengths."""
        return [np.array(row, dtype=np.float64) for row in (self._at_s, *self._rows)]


@dataclass(frozen=True)
class Usage:
    """Step functions of time: `values[i]` holds from `at_s[i]` until `at_s[i + 1]`; equal lengths.

    GPUs that two jobs share count once; CPU jobs do not count.
    """

    at_s: NDArray[np.float64]
    gpus_in_use: NDArray[np.float64]
    waiting_jobs: NDArray[np.float64]
    waiting_gpus: NDArray[np.float64]

    def since(self, from_s: float | None) -> "Usage":
        """Return the steps from a moment on (s; None: all), of which the first is what held then."""
        if from_s is None or not len(self.at_s):
            return self
        first = max(0, int(np.searchsorted(self.at_s, from_s, side="right")) - 1)
        at_s, *values = (steps[first:] for steps in vars(self).values())
        return Usage(np.maximum(at_s, from_s), *values)


def binned(
    at_s: NDArray[np.float64], values: NDArray[np.float64], edges_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean over each bin between the edges (s, ascending) of a step function; 0 before it begins.

    `values[i]` holds from `at_s[i]` until `at_s[i + 1]`, the last for ever.
    """
    if not len(at_s):
        return np.zeros(len(edges_s) - 1)
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(at_s))])
    until = np.interp(edges_s, at_s, area)
    beyond = np.maximum(0.0, edges_s - at_s[-1]) * values[-1]
    means: NDArray[np.float64] = np.diff(until + beyond) / np.diff(edges_s)
    return means


class UsageRecorder(Recorder):
    """Watches a simulation: one row a moment at which something changed."""

    def __init__(self) -> None:
        self._log = StepLog(3)
        self._gpus = self._jobs = self._wanted = 0

    def queued(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """One more waits."""
        self._jobs += 1
        self._wanted += job.job.gpus
        self._note(now_s)

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """One less waits, and its GPUs are in use."""
        self._jobs -= 1
        self._wanted -= job.job.gpus
        if job.partner is None:
            self._gpus += _held_gpus(job)
        self._note(now_s)

    def resized(self, now_s: float, job: JobView, pool: NodePool, before: Placement) -> None:
        """More or fewer GPUs are in use."""
        self._gpus += job.held_gpus - sum(gpus for _, gpus in before)
        self._note(now_s)

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """GPUs come free, unless a partner runs on; or one less waits."""
        if job.placement is None:
            self._jobs -= 1
            self._wanted -= job.job.gpus
        elif job.partner is None:
            self._gpus -= _held_gpus(job)
        self._note(now_s)

    def _note(self, now_s: float) -> None:
        self._log.note(now_s, (self._gpus, self._jobs, self._wanted))

    def usage(self) -> Usage:
        """Return what has been seen so far."""
        return Usage(*self._log.steps())


def _held_gpus(job: JobView) -> int:
    return job.held_gpus if job.job.gpus else 0


def most_done_s(at_s: NDArray[np.float64], busy: NDArray[np.float64]) -> float:
    """When a run has 1 % of its GPU time (or time of nodes) to go."""
    if not len(at_s):
        return 0.0
    done = np.cumsum(busy[:-1] * np.diff(at_s))
    return float(at_s[np.searchsorted(done, 0.99 * done[-1]) + 1]) if len(done) else 0.0
