"""Jobs that a log says run in workers, replayed as such with what a release believes of their run times."""

from dataclasses import replace

import pandas as pd

from parts.lending.replay.jobs_in_workers import in_workers
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.workload.workload import Workload

_WORKERS = ["gpus_per_worker", "workers_min", "workers_max"]


def tells_workers(jobs: pd.DataFrame) -> bool:
    """Whether a job table says of each of its GPU jobs in which workers it runs; there must be one."""
    on_gpus = jobs[jobs["gpus"] >= 1]
    if on_gpus.empty or not set(_WORKERS) <= set(on_gpus):
        return False
    return bool(on_gpus[_WORKERS].notna().to_numpy().all())


def replayed_in_workers(inputs: ReplayInputs) -> ReplayInputs:
    """Return the same replay with its jobs in their workers, where the log says which; else as it is.

    A job's estimate, of its run on the least of its workers, becomes that of a run on the most, as its run
    time does.
    """
    if not tells_workers(inputs.replayed):
        return inputs
    workload = inputs.scenario.workload
    moved = in_workers(workload, inputs.replayed)
    return replace(inputs, scenario=replace(inputs.scenario, workload=_believed(workload, moved)))


def _believed(before: Workload, moved: Workload) -> Workload:
    jobs = []
    for old, new in zip(before.jobs, moved.jobs, strict=True):
        faster = new.duration_s / old.duration_s if old.duration_s else 1.0
        estimate_s = None if old.estimated_duration_s is None else old.estimated_duration_s * faster
        jobs.append(replace(new, estimated_duration_s=estimate_s))
    return replace(moved, jobs=tuple(jobs))
