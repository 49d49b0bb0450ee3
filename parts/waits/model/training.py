"""Snapshots of a queue in, a registered version of the wait model out."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.lake import Lake
from cluster_logs.queue_log import QueueLog
from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, silent
from lucid_models.explanation.model_card import CardFacts
from lucid_models.tracking_run import LoggedDataset
from lucid_models.training_data import as_known_at
from lucid_models.training_log import Metrics, TrainedModel, TrainReport, register_model
from parts.waits.model.evaluation import MEDIAN, OURS, evaluate_waits
from parts.waits.model.fitting import LEAST_MOMENTS, TooFewWaitsError, WaitSettings
from parts.waits.model.job_queue import jobs_around, queue_log_of_jobs, read_job_queue
from parts.waits.model.model import WaitModel
from parts.waits.model.queue_frame import QUEUE_COLUMNS, write_queue_frame
from parts.waits.model.queue_moment import queue_at
from parts.waits.model.wait_table import WaitTable
from pipeline.training.explanations import ExplainedPrediction, RegisteredModel, rows_of
from pipeline.training.model_steps import LearnedFrom, ModelSteps, TrainingTask

# Of the moments these come last and are forecast one after the other, to measure the model by.
_TEST_SHARE = 0.25
LEAST_SNAPSHOTS = 2 * LEAST_MOMENTS
_EXAMPLE_JOBS = 50


def train_waits(
    *,
    log: QueueLog,
    source: str,
    cluster: str,
    tracking_uri: str,
    seed: int = 0,
    settings: WaitSettings | None = None,
    progress: Progress = silent,
) -> TrainReport:
    """Train and register the Wait Model of a cluster's queue; `source` says where its log is from.

    Measured on the last quarter of the moments, then fitted on all. Raises BadInputError for too few moments
    or ended waits, ServiceUnavailableError when MLflow does not answer.
    """
    base = settings or WaitSettings()
    chosen = replace(base, boosting=replace(base.boosting, seed=seed))
    progress(0, None, "features of every moment")
    moments = log.moments_s.size
    if moments < LEAST_SNAPSHOTS:
        raise TooFewWaitsError(
            f"{moments} moments of the queue are too few to learn from and to test on.",
            remedy=f"Give snapshots of {LEAST_SNAPSHOTS} moments or more, such as one a day.",
        )
    table = WaitTable.of(log)
    train_moments = moments - max(1, int(moments * _TEST_SHARE))
    measured = evaluate_waits(table, train_moments, chosen, names=log.partition_name, progress=progress)
    by_model = {row["model"]: _measures(row) for row in measured.rows}
    metrics, baselines = by_model[OURS], {MEDIAN: by_model[MEDIAN]}
    progress(0, None, "final fit")
    model = WaitModel(chosen).fit(table, log.partition_name, measured.means[OURS])
    progress(0, None, "logging")
    first, last = _time(table.moments_s[0]), _time(table.known_at_s(moments))
    test_from = _time(table.moments_s[train_moments])
    dataset = _dataset(log, cluster, source, (first, last))
    trained = TrainedModel(
        kind=model.kind,
        document=model.to_data(),
        dataset=dataset,
        params=asdict(chosen),
        metrics=metrics,
        baselines=baselines,
        card=CardFacts(
            kind=model.kind,
            data=f"{source} (SHA-256 {dataset.digest})",
            training_window=f"{_words(first)} to {_words(last)}, times as the site writes them",
            test_window=f"{moments - train_moments} moments from {_words(test_from)} on",
            split="by time: each moment of the test forecast from what was known at it, then fitted on all",
            metrics=metrics,
            baselines=baselines,
            rows={"moments": int(moments), "sightings_of_waiting_jobs": int(table.moment.size)},
            notes=[f"Rows not read, {reason}: {count:,}." for reason, count in log.reasons.items()],
        ),
        example=write_queue_frame(queue_at(log, float(table.moments_s[-1])), log, _EXAMPLE_JOBS),
        explained={"": model.explain_global()},
        local=model.explain_local(table.matrix[-1].tolist(), log.partition_name(int(table.partition[-1]))),
        tags={
            "cluster": cluster,
            "training_from": first.isoformat(),
            "training_until": last.isoformat(),
        },
    )
    return register_model(trained, tracking_uri, seed)


def _measures(row: Mapping[str, Any]) -> Metrics:
    return {name: float(value) for name, value in row.items() if name not in ("model", "rows")}


def _dataset(log: QueueLog, cluster: str, source: str, window: tuple[datetime, datetime]) -> LoggedDataset:
    digest = hashlib.sha256()
    for part in (log.jobs, log.seen):
        for name, values in part.items():
            digest.update(f"\x1e{name}\x1f".encode())
            digest.update(_bytes(values))
    digest.update("\x1f".join(name for names in log.names.values() for name in names).encode())
    first, last = window
    return LoggedDataset(
        f"{cluster}-queue",
        source,
        digest.hexdigest(),
        log.rows_kept,
        {name: kind for name, (kind, _) in QUEUE_COLUMNS.items()},
        first.isoformat(),
        last.isoformat(),
    )


def _bytes(values: NDArray[Any]) -> bytes:
    if values.dtype.kind == "O":
        return "\x1f".join(map(str, values)).encode()
    return values.tobytes()


def _time(moment_s: float) -> datetime:
    try:
        return datetime.fromtimestamp(moment_s, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise BadInputError(
            f"A moment of the queue is {moment_s:g} s after 1970.",
            remedy="Write times as dates, or as seconds since 1970.",
        ) from error


def _words(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _train(task: TrainingTask) -> object:
    return train_waits(
        log=read_job_queue(task.site, task.until),
        source=f"{task.site.lake}/jobs/cluster={task.site.cluster}",
        cluster=task.site.cluster,
        tracking_uri=task.site.registry,
        progress=task.site.progress,
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
