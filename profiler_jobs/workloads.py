"""The workload zoo: the configurations that are measured, alone and in pairs.

The list is shared with the synthetic cluster, so that a synthetic job names a type that can be measured.
"""

from cluster_logs.errors import UnknownNameError
from cluster_logs.synthetic.workload_zoo import ZOO, JobType, TrainingModel, list_job_types, step_time_ms

__all__ = ["ZOO", "JobType", "TrainingModel", "find_job_type", "list_job_types", "step_time_ms"]

_BY_NAME = {job_type.name: job_type for job_type in list_job_types()}


def find_job_type(name: str) -> JobType:
    """Return the configuration called `model/dataset/batch_size/amp`, else raise UnknownNameError."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise UnknownNameError("job type", name, _BY_NAME) from None
