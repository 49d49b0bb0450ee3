"""Lyra: elastic jobs and servers on loan from inference (Li et al., EuroSys '23)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from foundation.errors import BadInputError
from simulator.worker_scaling.knapsack import WorkerGroup, choose_workers, saved_time_values
from simulator.worker_scaling.scalable_job import ScalableJob
from simulator.worker_scaling.settings import WorkerSettings
from simulator.worker_scaling.worker_policy import WorkerPolicy


@dataclass(frozen=True)
class LyraSettings(WorkerSettings):
    """`value_exponent`: what saved time is worth; 0: its seconds, as in the paper (`saved_time_values`)."""

    value_exponent: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.value_exponent) and 0 <= self.value_exponent <= 10):
            raise BadInputError(f"value_exponent is {self.value_exponent!r}.", remedy="Use 0 to 10.")


class Lyra(WorkerPolicy):
    """The shortest base demands first; what is left goes to elastic jobs by a knapsack of saved time."""

    Settings = LyraSettings

    def extra_workers(self, jobs: Sequence[ScalableJob], capacity_gpus: int) -> Sequence[int]:
        """Fill the multiple-choice knapsack (section 5.2)."""
        exponent = self.settings.value_exponent
        groups = [
            WorkerGroup(job.gpus_per_worker, saved_time_values(job.left_s_by_extra(), exponent))
            for job in jobs
        ]
        return choose_workers(groups, capacity_gpus)
