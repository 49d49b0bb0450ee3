"""How the wait model is trained, and an answer of its explained."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cluster_logs.lake import Lake
from foundation.errors import NotFoundError
from lucid_models.training_data import as_known_at
from parts.waits.model.job_queue import jobs_around, queue_log_of_jobs, read_job_queue
from parts.waits.model.model import WaitModel
from parts.waits.model.queue_moment import queue_at
from pipeline.training.explanations import ExplainedPrediction, RegisteredModel, rows_of
from pipeline.training.model_steps import LearnedFrom, ModelSteps, TrainingTask


def _train(task: TrainingTask) -> object:
    from parts.waits.model.training import train_waits

    return train_waits(
        log=read_job_queue(task.lake_uri, task.cluster, task.until),
        source=f"{task.lake_uri}/jobs/cluster={task.cluster}",
        cluster=task.cluster,
        tracking_uri=task.tracking_uri,
        progress=task.progress,
    )


def _explain(
    model: RegisteredModel, lake: Lake, cluster: str, job_ids: Sequence[str]
) -> list[ExplainedPrediction]:
    if not job_ids:  # one that learned from snapshots has no jobs in the lake
        return []
    jobs = lake.read_jobs(cluster)
    return [_wait(model.parts[""], jobs, row) for row in rows_of(jobs, job_ids, cluster)]


def _wait(model: WaitModel, jobs: pd.DataFrame, row: int) -> ExplainedPrediction:
    """The forecast at a job's submission, from what the table tells of the queue at that moment."""
    job_id, known_at = str(jobs["job_id"].iloc[row]), jobs["submit_time"].iloc[row].to_pydatetime()
    moment_s = known_at.timestamp()
    log = queue_log_of_jobs(as_known_at(jobs_around(jobs, known_at), known_at), np.array([moment_s]))
    queue = queue_at(log, moment_s)
    positions = np.flatnonzero(log.jobs["job_id"][queue.waiting["job"]] == job_id)
    if not positions.size:
        raise NotFoundError(
            f"Job {job_id!r} did not wait: it started when it was submitted.", remedy="Name one that waited."
        )
    place = int(positions[0])
    values = model.scorer.features.matrix(queue)[place].tolist()
    partition = log.partition_name(int(queue.waiting["partition"][place]))
    return ExplainedPrediction(f"job {job_id}", "", known_at, model.explain_local(values, partition))


# Before a week, few of the longer waits are over.
STEPS = ModelSteps(_explain, _train, LearnedFrom("jobs", "jobs", 7))
