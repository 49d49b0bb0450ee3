"""Profiling that is played to its end before the simulation proper, as if it took no time."""

from collections.abc import Iterable
from typing import Protocol

from simulator.cluster import ClusterSpec
from simulator.job_view import JobView
from simulator.result import SimulationResult
from simulator.workload import Workload


class ProfilingPrepass(Protocol):
    """A prepass that has been played; `workload` and `cluster` are what it leaves for later."""

    workload: Workload
    cluster: ClusterSpec

    def mark(self, views: Iterable[JobView]) -> None:
        """Note on the later simulation's jobs, in the order of `workload`, what is known from the start."""

    def joined(self, later: SimulationResult) -> SimulationResult:
        """Return the schedule of the whole workload from that of the simulation that came after."""
