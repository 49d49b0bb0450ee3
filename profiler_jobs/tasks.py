"""What can be measured: a configuration alone, or two of them on one device."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from foundation.errors import BadInputError
from profiler_jobs.workloads import JobType, find_job_type

SEPARATOR = " + "


@dataclass(frozen=True)
class MeasurementTask:
    """One or two configurations that one run measures. A pair is unordered; its configurations are sorted."""

    job_types: tuple[JobType, ...]

    def __post_init__(self) -> None:
        if len(self.job_types) not in (1, 2):
            raise BadInputError(
                f"A measurement has {len(self.job_types)} configurations.", remedy="Give one, or a pair."
            )
        ordered = tuple(sorted(self.job_types, key=lambda job_type: job_type.name))
        object.__setattr__(self, "job_types", ordered)

    @property
    def name(self) -> str:
        """Return `A` or `A + B`, with the configurations' names in order."""
        return SEPARATOR.join(job_type.name for job_type in self.job_types)

    @property
    def is_pair(self) -> bool:
        """Return whether two configurations share the device."""
        return len(self.job_types) == 2


def parse_task(name: str) -> MeasurementTask:
    """Return the task called `A` or `A + B`. Raises UnknownNameError for an unknown configuration."""
    return MeasurementTask(tuple(find_job_type(part.strip()) for part in name.split(SEPARATOR)))


def solo_tasks(job_types: Sequence[JobType]) -> tuple[MeasurementTask, ...]:
    """Return one task a configuration, in their order."""
    return tuple(MeasurementTask((job_type,)) for job_type in job_types)


def pair_tasks(job_types: Sequence[JobType]) -> tuple[MeasurementTask, ...]:
    """Return every unordered pair, each configuration with itself too."""
    return tuple(MeasurementTask(pair) for pair in combinations_with_replacement(job_types, 2))
