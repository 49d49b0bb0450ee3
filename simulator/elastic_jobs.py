"""Treats the rigid jobs of a log as elastic ones: what could be gained if they were."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from foundation.errors import BadInputError
from simulator.speed_up import Elasticity, SpeedUp
from simulator.workload import Workload


def as_elastic(
    workload: Workload,
    min_gpus: int,
    *,
    models: Sequence[str | None] = (),
    speed_ups: Mapping[str, SpeedUp] | None = None,
) -> Workload:
    """Return the same jobs, each content with any number of GPUs from `min_gpus` to what it asked for.

    On those it takes as long as it did; on fewer, as the curve of its model says (`models`: one a job, in the
    order of `jobs`; `speed_ups`: curves by model), and without one in proportion. Jobs that are elastic
    already stay as they are.
    """
    if min_gpus < 0:
        raise BadInputError(f"Elastic jobs would need {min_gpus} GPUs at least.", remedy="Use 0 or more.")
    curves = speed_ups or {}
    jobs = []
    for i, job in enumerate(workload.jobs):
        if job.elasticity is None and job.gpus:
            curve = curves.get(models[i] or "") if models else None
            if curve is None:
                curve = SpeedUp.linear(job.gpus)
            elasticity = Elasticity(job.duration_s * curve.at(job.gpus), curve, min(min_gpus, job.gpus))
            job = replace(job, elasticity=elasticity)
        jobs.append(job)
    return replace(workload, jobs=tuple(jobs))
