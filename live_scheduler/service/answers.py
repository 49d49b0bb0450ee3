"""Answers for people, made of the daemon's view and nothing else: status, queues, and why a job stands
where it stands.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from foundation.errors import NotFoundError
from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.deciding.decision import Decision
from live_scheduler.forecast.submission_predictions import (
    JudgedPrediction,
    PredictionErrorSummary,
    by_policy_and_release,
)
from live_scheduler.hindsight.regret_job import RegretReport
from live_scheduler.live_settings import Mode
from live_scheduler.live_view import LiveView
from live_scheduler.service.schema import (
    Hindsight,
    PartitionStatus,
    PredictionErrors,
    Queue,
    QueueAnswer,
    QueuedJob,
    Refusal,
    ReleaseStatus,
    Status,
)


def find_job(cluster: ClusterState, job_id: str) -> LiveJob:
    """Return a job that waits or runs, by its id; an array stands for its task, and its only task for it.

    Raises NotFoundError.
    """
    asked = job_id.strip()
    live_job = cluster.by_id.get(asked)
    array, _, task = asked.partition("_")
    if live_job is None and task.isdigit():
        # The tasks of an array that have not started are one record, under the array's id.
        live_job = cluster.by_id.get(array)
    if live_job is not None:
        return live_job
    parts = [job for job in cluster.jobs if job.job_id.startswith((f"{asked}_", f"{asked}+"))]
    if len(parts) == 1:
        return parts[0]
    if asked and parts:
        some = ", ".join(part.job_id for part in parts[:10])
        raise NotFoundError(
            f"Job {asked!r} has {len(parts)} parts.", remedy=f"Ask about one of them: {some}."
        )
    raise NotFoundError(
        f"No job {asked[:100]!r} waits or runs.",
        remedy="It may have ended, or be too new for the last reading: see `lucid live queue`.",
    )


def in_charge(view: LiveView) -> bool:
    """Whether this product's order counts now: it controls the queue, and the last pass acted on it."""
    return view.settings.mode is Mode.CONTROL and view.decision is not None and problem_in(view) is None


def problem_in(view: LiveView) -> str | None:
    """Return what stood in the way of the last pass."""
    return view.problem or (view.decision.problem if view.decision else None)


def whose_order(view: LiveView) -> str:
    """Say which order counts now, this product's or the cluster's, and why."""
    decision, why = view.decision, problem_in(view)
    if decision is not None and in_charge(view):
        return f"Lucid orders the queue, by {decision.release}{_staleness(view)}."
    if why:
        return f"The cluster's own order counts: {why}"
    if decision is None:
        return "The cluster's own order counts: nothing was decided yet."
    return (
        f"The cluster's own order counts (mode {view.settings.mode}); this is how Lucid would order it, "
        f"by {decision.release}{_staleness(view)}."
    )


def _staleness(view: LiveView) -> str:
    release = view.release
    if release.mode != "stale":
        return ""
    if release.expired:
        return f" (stale: its publication held until {release.expires})"
    return f" (stale: its server was last heard of {release.last_contact or 'never'})"


def status_of(
    view: LiveView,
    now_s: float,
    heartbeat_age_s: float | None,
    regret_report: RegretReport | None = None,
    kept: Sequence[JudgedPrediction] = (),
) -> Status:
    """Return how the daemon is at `now_s` (Unix time)."""
    decision, settings = view.decision, view.settings
    return Status(
        cluster=settings.cluster,
        mode=settings.mode.value,
        policy=settings.policy,
        at_s=view.at_s,
        started_s=view.started_s,
        pass_age_s=max(0.0, now_s - view.at_s),
        in_charge=in_charge(view) and (heartbeat_age_s is None or heartbeat_age_s <= settings.dead_after_s),
        decided=decision is not None and decision.problem is None,
        release=release_status(view, now_s),
        dead_after_s=settings.dead_after_s,
        heartbeat_age_s=heartbeat_age_s,
        decision_latency_s=decision.latency_s if decision else None,
        ranked_jobs=len(decision.ranked) if decision else 0,
        left_alone_jobs=len(decision.left_alone) if decision else 0,
        set_by_hand_jobs=sum(bool(job.kept) for job in view.cluster.jobs) if view.cluster else 0,
        hands_off_jobs=sum(bool(job.hands_off) for job in view.cluster.jobs) if view.cluster else 0,
        partitions=tuple(partition_statuses(view.cluster)) if view.cluster else (),
        asked=dict(Counter(type(change).__name__ for change in view.asked)),
        refused=tuple(
            Refusal(job_id=refusal.change.job_id, change=type(refusal.change).__name__, why=refusal.why)
            for refusal in view.refused
        ),
        deferred=view.deferred,
        counts=dict(view.counts),
        seconds=dict(view.seconds),
        hindsight=hindsight_of(regret_report),
        starts=regret_report.agreement.started if regret_report else 0,
        agreed_starts=regret_report.agreement.agreed if regret_report else 0,
        predictions=tuple(prediction_errors(kept)),
        problem=problem_in(view),
        **{name: said.told() for name, said in view.parts.items()},
    )


def hindsight_of(regret_report: RegretReport | None) -> Hindsight | None:
    """Return the hindsight of a regret report, if it has one."""
    hindsight = regret_report.hindsight if regret_report else None
    if hindsight is None:
        return None
    return Hindsight(
        start_s=hindsight.start_s,
        end_s=hindsight.end_s,
        jobs=hindsight.jobs,
        measured_jct_s=hindsight.measured.mean_jct_s,
        live_jct_s=hindsight.live.mean_jct_s,
        backfill_jct_s=hindsight.backfill.mean_jct_s,
        true_durations_jct_s=hindsight.true_durations.mean_jct_s,
        regret_against_backfill_s=hindsight.against_backfill.point_s,
        regret_against_true_durations_s=hindsight.against_true_durations.point_s,
        reliable=hindsight.against_backfill.reliable,
        log10_error=hindsight.log10_error,
        regret_against_backfill_low_s=hindsight.against_backfill.low_s,
        regret_against_backfill_high_s=hindsight.against_backfill.high_s,
    )


def prediction_errors(kept: Sequence[JudgedPrediction]) -> Iterable[PredictionErrors]:
    """Yield how predictions held, by policy and release, over all and in each virtual cluster."""
    for each in (False, True):
        for group, errors in by_policy_and_release(kept, virtual_clusters=each):
            yield errors_message(errors, *group)


def errors_message(
    errors: PredictionErrorSummary, policy: str, release_version: int | None, virtual_cluster: str
) -> PredictionErrors:
    """Return how predictions held as a message."""
    return PredictionErrors(
        policy=policy,
        virtual_cluster=virtual_cluster,
        jobs=errors.jobs,
        mean_error_pct=errors.mean_pct,
        median_error_pct=errors.median_pct,
        p99_error_pct=errors.p99_pct,
        by_told=errors.by_promise,
        by_p90=errors.by_p90,
        release_version=release_version,
        late=errors.late,
    )


def release_status(view: LiveView, now_s: float) -> ReleaseStatus:
    """Return which release is in use, with the age of the last word from its server."""
    contact = view.release.last_contact
    age_s = None if contact is None else max(0.0, now_s - _unix(contact))
    return ReleaseStatus(**asdict(view.release), contact_age_s=age_s)


def partition_statuses(cluster: ClusterState) -> Iterable[PartitionStatus]:
    """Yield each partition with its queue and GPUs, by name."""
    waiting_jobs: Counter[str] = Counter()
    waiting_gpus: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for job in cluster.jobs:
        for partition in job.partition.split(","):  # where a job may go to several, it waits in each
            if job.waiting:
                waiting_jobs[partition] += job.tasks
                waiting_gpus[partition] += job.tasks * job.gpus
            else:
                running[partition] += 1
    names = {name for node in cluster.nodes for name in node.partitions}
    for name in sorted(names | set(waiting_jobs) | set(running)):
        nodes = [node for node in cluster.nodes if name in node.partitions]
        yield PartitionStatus(
            partition=name,
            waiting_jobs=waiting_jobs[name],
            waiting_gpus=waiting_gpus[name],
            running_jobs=running[name],
            gpus=sum(node.gpus for node in nodes),
            gpus_used=sum(node.gpus_used for node in nodes),
            gpus_offered=sum(node.gpus for node in nodes if node.available),
            open=name not in cluster.closed_partitions,
        )


def queue_of(view: LiveView, pool: str | None = None) -> QueueAnswer:
    """Return all queues, or one; raises ServiceUnavailableError, NotFoundError for an unknown queue."""
    cluster = view.read_cluster()
    decision = view.decision
    ranked: dict[str, list[QueuedJob]] = {}
    for place in decision.ranked if decision else ():
        job = cluster.by_id.get(place.job_id)
        if job is None:
            continue
        ranked.setdefault(place.pool, []).append(
            QueuedJob(
                job_id=job.job_id,
                place=place.place,
                gpus=job.gpus,
                waited_s=waited_s(job, cluster.at_s),
                starts_now=place.starts_now,
                overdue=place.overdue,
                user=job.user,
                name=job.name,
                estimated_duration_s=place.estimated_duration_s,
                tasks=job.tasks,
            )
        )
    alone: dict[str, dict[str, str]] = {}
    for job_id, why in (decision.left_alone if decision else {}).items():
        job = cluster.by_id.get(job_id)
        if job is not None:
            alone.setdefault(job.partition, {})[job_id] = why
    pool_names = {name for node in cluster.nodes for name in node.partitions} | set(ranked) | set(alone)
    if pool is not None and pool not in pool_names:
        raise NotFoundError(
            f"There is no queue {pool[:100]!r}.", remedy=f"The queues are: {', '.join(sorted(pool_names))}."
        )
    return QueueAnswer(
        at_s=cluster.at_s,
        release=decision.release if decision else view.release.release,
        policy=view.settings.policy,
        in_charge=in_charge(view),
        note=whose_order(view),
        queues=tuple(
            Queue(
                pool=name,
                jobs=tuple(sorted(ranked.get(name, ()), key=lambda job: job.place)),
                left_alone=alone.get(name, {}),
            )
            for name in (sorted(pool_names) if pool is None else [pool])
        ),
        problem=problem_in(view),
    )


def waited_s(job: LiveJob, at_s: float) -> float:
    """Return how long a job has waited (s), until it started if it did."""
    until_s = at_s if job.start_time_s is None else job.start_time_s
    return max(0.0, until_s - job.submit_time_s)


def gpus_of(cluster: ClusterState, partition: str) -> tuple[int, int]:
    """Return a partition's GPUs on offer, and how many of them are free."""
    nodes = [node for node in cluster.nodes if node.available and partition in node.partitions]
    return sum(node.gpus for node in nodes), sum(max(0, node.gpus - node.gpus_used) for node in nodes)


def estimates_of(decision: Decision | None) -> Mapping[str, float]:
    """Return the estimated run times (s) of ranked jobs."""
    ranked = decision.ranked if decision else ()
    return {p.job_id: p.estimated_duration_s for p in ranked if p.estimated_duration_s is not None}


def moment(at_s: float | None) -> str:
    """Return a time of day where the daemon is, as the cluster's own commands show it there."""
    if at_s is None:
        return "an unknown time"
    return f"{datetime.fromtimestamp(at_s).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _unix(iso: str) -> float:
    moment = datetime.fromisoformat(iso)
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()
