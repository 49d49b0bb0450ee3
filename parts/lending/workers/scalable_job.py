"""An elastic job to which flexible workers may be given."""

from dataclasses import dataclass

from parts.lending.workers.draft import DraftedJob
from simulator.workload.workers import Workers


@dataclass(frozen=True, slots=True)
class ScalableJob:
    """What a policy goes by.

    A flexible worker takes `gpus_per_worker` GPUs where the job is (on servers on loan several workers there
    do the work of one). `left_s`: how long it would run on from now on its base workers alone, as far as the
    policy knows it (s).
    """

    drafted: DraftedJob
    gpus_per_worker: int
    left_s: float

    @property
    def workers(self) -> Workers:
        """What the job is."""
        return self.drafted.workers

    def left_s_by_extra(self) -> list[float]:
        """Return how long it would run with 0, 1, 2, ... flexible workers (s)."""
        workers = self.workers
        work = self.left_s * workers.rate(workers.least)
        return [work / workers.rate(count) for count in range(workers.least, workers.most + 1)]
