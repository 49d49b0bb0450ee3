"""Lyra: elastic jobs and servers on loan from inference (Li et al., EuroSys '23)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from foundation.checked_settings import Between
from parts.lending.workers.knapsack import WorkerGroup, choose_workers, saved_time_values
from parts.lending.workers.scalable_job import ScalableJob
from parts.lending.workers.settings import WorkerSettings
from parts.lending.workers.worker_policy import WorkerPolicy


@dataclass(frozen=True)
class LyraSettings(WorkerSettings):
    """`value_exponent`: what saved time is worth; 0: its seconds, as in the paper (`saved_time_values`)."""

    value_exponent: Annotated[float, Between(0, 10)] = 0.0


class Lyra(WorkerPolicy):
    """The shortest base demands first; what is left goes to elastic jobs by a knapsack of saved time."""

    Settings = LyraSettings
    at_events_only = True  # what is left of running jobs changes what extra workers save

    def extra_workers(self, jobs: Sequence[ScalableJob], capacity_gpus: int) -> Sequence[int]:
        """Fill the multiple-choice knapsack (section 5.2)."""
        exponent = self.settings.value_exponent
        groups = [
            WorkerGroup(job.gpus_per_worker, saved_time_values(job.left_s_by_extra(), exponent))
            for job in jobs
        ]
        return choose_workers(groups, capacity_gpus)
