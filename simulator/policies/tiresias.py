"""Tiresias' discretised least attained service (Gu et al., NSDI '19), as Lucid runs it beside itself."""

from dataclasses import dataclass
from heapq import merge

from cluster_logs.errors import BadInputError
from simulator.actions import Action
from simulator.policy import Policy
from simulator.preemption import PreemptionSettings, preempt_to_fit, quota_walk
from simulator.snapshot import JobView, NodePool, Snapshot


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

    def _rank(self, job: JobView, now_s: float) -> tuple[bool, float]:
        lower = job.attained_at(now_s) * job.gpus > self.settings.threshold_gpu_s
        return (lower, job.submit_time_s)

    def priority(self, job: JobView) -> tuple[bool, float]:
        """Order by queue, then by submission; attained service stands still while a job waits."""
        return (job.attained_s * job.gpus > self.settings.threshold_gpu_s, job.submit_time_s)

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Give the GPUs of each changed pool to the upper queue, then to the lower."""
        return [
            action
            for pool in snapshot.changed
            if len(pool.queue)
            for action in self._decide(pool, snapshot.now_s)
        ]

    def _decide(self, pool: NodePool, now_s: float) -> list[Action]:
        def rank(job: JobView) -> tuple[bool, float]:
            return self._rank(job, now_s)

        if self.settings.selection == "fit":
            return preempt_to_fit(pool, rank)
        # Ties: running jobs come first.
        return quota_walk(pool, merge(sorted(pool.running, key=rank), pool.queue, key=rank))

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """Look again when a running job of the upper queue has used up its service, if anybody waits."""
        if not len(pool.queue):
            return None
        threshold = self.settings.threshold_gpu_s
        return min(
            (
                job.run_since_s + threshold / job.gpus - job.attained_s
                for job in pool.running
                if job.attained_at(now_s) * job.gpus <= threshold
            ),
            default=None,
        )
