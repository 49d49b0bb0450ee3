"""The workload zoo: the configurations that are measured, alone and in pairs.

Table 1 of Lucid is shared with the synthetic cluster, so that a synthetic job names a type that can be
measured; beside it stand workloads of today (`RECENT`).
"""

from cluster_logs.synthetic.workload_zoo import (
    RECENT,
    ZOO,
    JobType,
    TrainingModel,
    list_job_types,
    step_time_ms,
)
from foundation.errors import UnknownNameError

__all__ = [
    "RECENT",
    "ZOO",
    "JobType",
    "TrainingModel",
    "all_job_types",
    "find_job_type",
    "list_job_types",
    "step_time_ms",
]


def all_job_types() -> tuple[JobType, ...]:
    """Return every configuration that can be measured: Table 1's, then those of `RECENT`."""
    return list_job_types(ZOO + RECENT)


_BY_NAME = {job_type.name: job_type for job_type in all_job_types()}


def find_job_type(name: str) -> JobType:
    """Return the configuration called `model/dataset/batch_size/amp`, else raise UnknownNameError."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise UnknownNameError("job type", name, _BY_NAME) from None
