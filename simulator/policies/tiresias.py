"""Tiresias' discretised least attained service (Gu et al., NSDI '19), as Lucid runs it beside itself."""

from dataclasses import dataclass

from foundation.errors import BadInputError
from simulator.column_rule import ColumnRule
from simulator.job_view import JobView
from simulator.mechanisms.preemption import PreemptionSettings, PreemptivePolicy
from simulator.running_order import RunningKey
from simulator.snapshot import NodePool
from simulator.workload.columns import WorkloadColumns


@dataclass(frozen=True)
class TiresiasSettings(PreemptionSettings):
    """Settings of Tiresias.

    A job moves to the lower queue, for good, once its attained service (GPUs x seconds held) exceeds
    `threshold_gpu_s`. Decisions fall on multiples of `round_s`; None: at every event.
    """

    threshold_gpu_s: float = 18_000.0
    round_s: float | None = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.threshold_gpu_s > 0:
            raise BadInputError(
                f"threshold_gpu_s is {self.threshold_gpu_s!r}.", remedy="Use more than 0 GPU-s."
            )
        if self.round_s is not None and not 0 < self.round_s < float("inf"):
            raise BadInputError(
                f"round_s is {self.round_s!r}.", remedy="Use a positive number of s, or None."
            )


class Tiresias(PreemptivePolicy):
    """Two queues by attained service, first come first served in each; the upper queue preempts the lower."""

    Settings = TiresiasSettings
    reads_profiles = False

    def __init__(self, settings: TiresiasSettings | None = None) -> None:
        super().__init__(settings)
        self.round_s = self.settings.round_s

    def priority(self, job: JobView) -> tuple[bool, float]:
        """Order by queue, then by submission; attained service stands still while a job waits."""
        return (job.attained_s * job.gpus > self.settings.threshold_gpu_s, job.submit_time_s)

    def column_rule(self, jobs: WorkloadColumns) -> ColumnRule | None:
        """Order by queue, then by submission."""
        return self.column_rule_by(self.settings.threshold_gpu_s)

    def running_key(self, job: JobView, now_s: float) -> RunningKey:
        """The same order; a running job moves to the lower queue when its service exceeds the threshold."""
        threshold = self.settings.threshold_gpu_s
        if job.attained_at(now_s) * job.gpus > threshold:
            return (True, job.submit_time_s), None
        return (False, job.submit_time_s), job.run_since_s + threshold / job.gpus - job.attained_s

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """Look again when a running job of the upper queue has used up its service, if any job waits."""
        if not len(pool.queue) or pool.running_order is None:
            return None
        pool.running_order.at(now_s)
        return pool.running_order.next_change_s()
