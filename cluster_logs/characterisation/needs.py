"""What a figure needs of a log. A log that lacks it drops the figure, with the reason given here."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from cluster_logs.characterisation.observed_log import ObservedLog


class Need(Enum):
    """Something that a log may lack."""

    SUBMISSIONS = "submissions"
    GPU_JOBS = "GPU jobs"
    CPU_JOBS = "CPU jobs"
    DURATIONS = "durations"
    CPU_DURATIONS = "durations of CPU jobs"
    CPUS = "CPU cores"
    STATES = "final states"
    CPU_STATES = "final states of CPU jobs"
    USERS = "users"
    QUEUES = "queuing delays"
    WAITS = "jobs that waited"
    STARTS = "start times"
    CAPACITY = "nodes"
    OCCUPANCY = "utilisation"
    VIRTUAL_CLUSTER_OCCUPANCY = "utilisation of virtual clusters"
    WAITING_GPUS = "GPUs that waiting jobs ask for"
    SEVERAL_VIRTUAL_CLUSTERS = "several virtual clusters"
    LIMITS = "time limits"
    MONTHS = "two months"


def _some(log: ObservedLog, column: str, *, cpu: bool = False) -> bool:
    jobs = log.cpu_jobs if cpu else log.gpu_jobs
    return bool(jobs[column].notna().any())


def _ended(log: ObservedLog, *, cpu: bool = False) -> bool:
    jobs = log.cpu_jobs if cpu else log.gpu_jobs
    return bool(jobs["state"].isin(["COMPLETED", "CANCELLED", "FAILED"]).any())


def _occupied(log: ObservedLog) -> bool:
    if log.samples is not None:
        return bool(len(log.samples.times_s)) and (log.samples.total is not None or log.capacity is not None)
    return log.capacity is not None and not log.running.empty


def _occupied_by_virtual_cluster(log: ObservedLog) -> bool:
    if log.capacity is None:
        return False
    if log.samples is not None and log.samples.by_virtual_cluster is not None:
        return bool(len(log.samples.times_s))
    return not log.running.empty


_CHECKS: Mapping[Need, tuple[Callable[[ObservedLog], bool], str]] = {
    Need.SUBMISSIONS: (
        lambda log: not log.gpu_jobs.empty or (log.bins is not None and log.bins["gpu_jobs"].sum() > 0),
        "no GPU job was submitted in the window",
    ),
    Need.GPU_JOBS: (lambda log: not log.gpu_jobs.empty, "the log lists no GPU jobs"),
    Need.CPU_JOBS: (lambda log: not log.cpu_jobs.empty, "the log has no CPU jobs"),
    Need.DURATIONS: (lambda log: _some(log, "duration_s"), "the log has no durations of GPU jobs"),
    Need.CPU_DURATIONS: (
        lambda log: _some(log, "duration_s", cpu=True),
        "the log has no CPU jobs with durations",
    ),
    Need.CPUS: (lambda log: _some(log, "cpu_time_s", cpu=True), "the log has no CPU jobs with cores"),
    Need.STATES: (_ended, "the log has no final states"),
    Need.CPU_STATES: (lambda log: _ended(log, cpu=True), "the log has no CPU jobs with final states"),
    Need.USERS: (lambda log: _some(log, "user"), "the log names no users"),
    Need.QUEUES: (lambda log: _some(log, "queue_s"), "the log has neither start times nor queuing delays"),
    Need.WAITS: (
        lambda log: bool((log.running["start_s"] > log.running["ready_s"]).any()),
        "no GPU job waited that might have started",
    ),
    Need.STARTS: (lambda log: not log.running.empty, "the log has no start and end times of GPU jobs"),
    Need.CAPACITY: (lambda log: log.capacity is not None, "the cluster's nodes are not known"),
    Need.OCCUPANCY: (
        _occupied,
        "utilisation needs start and end times and the cluster's nodes, or samples of what is in use",
    ),
    Need.VIRTUAL_CLUSTER_OCCUPANCY: (
        _occupied_by_virtual_cluster,
        "utilisation of virtual clusters needs start and end times, or samples of each, and their nodes",
    ),
    Need.WAITING_GPUS: (
        lambda log: (
            not log.running.empty
            or (log.samples is not None and log.samples.waiting_by_virtual_cluster is not None)
        ),
        "waiting GPUs need start times, or samples of them",
    ),
    Need.SEVERAL_VIRTUAL_CLUSTERS: (
        lambda log: log.gpu_jobs["virtual_cluster"].nunique() > 1,
        "the log has one virtual cluster",
    ),
    Need.LIMITS: (lambda log: _some(log, "limit_s"), "the log has no time limits"),
    Need.MONTHS: (
        lambda log: log.months_of(log.gpu_jobs).nunique() > 1,
        "the window lies in one month: nothing to compare",
    ),
}


def lacking(log: ObservedLog, needs: Iterable[Need]) -> str | None:
    """The reason why a log cannot carry what has these needs: the first that it lacks; None: it can."""
    return next((reason for check, reason in map(_CHECKS.__getitem__, needs) if not check(log)), None)
