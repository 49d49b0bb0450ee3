"""Tiresias' discretised least attained service (Gu et al., NSDI '19), as Lucid runs it beside itself."""

from dataclasses import dataclass

from foundation.errors import BadInputError
from simulator.actions import Action
from simulator.job_view import JobView
from simulator.mechanisms.preemption import PreemptionSettings, preempt_to_fit, quota_walk
from simulator.policy import Policy
from simulator.running_order import RunningKey
from simulator.snapshot import NodePool, Snapshot


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


class Tiresias(Policy):
    """Two queues by attained service, first come first served in each; the upper queue preempts the lower."""

    Settings = TiresiasSettings

    def __init__(self, settings: TiresiasSettings | None = None) -> None:
        self.settings = settings or TiresiasSettings()
        self.costs = self.settings.costs()
        self.round_s = self.settings.round_s

    def priority(self, job: JobView) -> tuple[bool, float]:
        """Order by queue, then by submission; attained service stands still while a job waits."""
        return (job.attained_s * job.gpus > self.settings.threshold_gpu_s, job.submit_time_s)

    def running_key(self, job: JobView, now_s: float) -> RunningKey:
        """The same order; a running job moves to the lower queue when its service exceeds the threshold."""
        threshold = self.settings.threshold_gpu_s
        if job.attained_at(now_s) * job.gpus > threshold:
            return (True, job.submit_time_s), None
        return (False, job.submit_time_s), job.run_since_s + threshold / job.gpus - job.attained_s

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Give the GPUs of each changed pool to the upper queue, then to the lower."""
        now_s = snapshot.now_s
        actions: list[Action] = []
        for pool in snapshot.changed:
            if not len(pool.queue):
                continue
            if self.settings.selection == "fit":
                actions += preempt_to_fit(pool, now_s, _same)
            else:
                actions += quota_walk(pool, now_s, _same, waiting_first=False)
        return actions

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """Look again when a running job of the upper queue has used up its service, if any job waits."""
        if not len(pool.queue) or pool.running_order is None:
            return None
        pool.running_order.at(now_s)
        return pool.running_order.next_change_s()


def _same(priority: tuple[bool, float]) -> tuple[bool, float]:
    return priority
