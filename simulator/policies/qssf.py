"""Quasi-shortest service first (Helios, SC '21, section 4.2, Algorithm 1)."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.actions import Start
from simulator.column_rule import ColumnRule, gpus_or_cores
from simulator.job_view import JobView
from simulator.mechanisms.overtaking_bound import (
    OverdueMemory,
    OvertakingBound,
    OvertakingSettings,
)
from simulator.policy import InOrderPolicy, start_from_front
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.columns import WorkloadColumns


@dataclass(frozen=True)
class QssfSettings(OvertakingSettings):
    """Settings of QSSF: a bound on overtaking, which the paper has not; by default there is none."""

    overtaking_bound_s: float = 0.0


class Qssf(InOrderPolicy):
    """Jobs start in the order of GPUs x estimated duration; no preemption."""

    needs_estimates = True
    reads_profiles = False
    Settings = QssfSettings

    def __init__(self, settings: QssfSettings | None = None) -> None:
        self.settings = settings or QssfSettings()
        self.overtaking = OvertakingBound(self.settings.overtaking_bound_s)
        self.overtaking_bound_s = self.overtaking.bound_s
        if self.settings.overtaking_bound_s:
            self.at_events_only = True  # jobs become overdue in between
            self.in_order = False  # and so does one that queues behind others

    def priority(self, job: JobView) -> tuple[float, int]:
        """Order by expected service (GPU seconds), then by GPUs."""
        return (job.estimate_s * job.gpus, job.gpus)

    def column_rule(self, jobs: WorkloadColumns) -> ColumnRule | None:
        """Order by expected service, then by GPUs; with a bound on overtaking the order changes in time."""
        if self.settings.overtaking_bound_s:
            return None
        gpus = gpus_or_cores(jobs)
        return ColumnRule((jobs.estimated_duration_s * gpus, gpus))

    def decide(self, snapshot: Snapshot) -> list[Start]:
        """Start from the front of each changed queue, overdue jobs first."""
        if not self.settings.overtaking_bound_s:
            return super().decide(snapshot)
        return [start for pool in snapshot.changed for start in self._serve(pool, snapshot.now_s)]

    def history(self) -> OverdueMemory:
        """Return which overdue jobs are served next."""
        return self.overtaking.memory()

    def resume(self, pools: Mapping[str, NodePool], history: OverdueMemory | None) -> None:
        """Keep it."""
        if history is not None:
            self.overtaking.remember(history)

    def _serve(self, pool: NodePool, now_s: float) -> list[Start]:
        overdue = self.overtaking.begin(pool, now_s)
        if overdue is None:
            return start_from_front(pool)
        starts = list(overdue.starts)
        served = {start.job for start in starts} | {overdue.job}
        for job in pool.queue:
            if job in served:
                continue
            placement = overdue.plan.place(job.gpus, job.nodes) or overdue.place_beside(job, now_s)
            if placement is None:
                break
            starts.append(Start(job, placement))
        return starts
