"""Every figure, table and group of numbers: what it is made of and what each part needs.

An item is made of parts that share an index (hours, months, virtual clusters); a log that lacks what a part
needs drops this part by name and with a reason, the rest stands.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial

import pandas as pd

from cluster_logs.log_statistics import statistics
from cluster_logs.log_statistics.observed_log import ObservedLog
from foundation.markdown import markdown_table
from parts.characterisation import breakdowns, figures, utilisation, waiting, waste


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


Measure = Callable[[ObservedLog], pd.DataFrame]
Numbers = Callable[[ObservedLog], Mapping[str, float]]
Needs = tuple[Need, ...]


@dataclass(frozen=True)
class ItemPart:
    """Columns of an item; `name` says which, empty where the item has one part only."""

    needs: Needs
    measure: Measure
    name: str = ""


@dataclass(frozen=True)
class Item:
    """A figure or a table under its key, such as `fig2a`.

    `largest_first`: rows with most GPU time (else most GPU jobs) come first.
    """

    key: str
    title: str
    parts: tuple[ItemPart, ...]
    largest_first: bool = False


@dataclass(frozen=True)
class NumberGroup:
    """Numbers `KEY.NAME` that are measured together."""

    key: str
    needs: Needs
    measure: Numbers


def _item(key: str, title: str, *parts: ItemPart) -> Item:
    return Item(key, title, parts)


_TIMED: Needs = (Need.GPU_JOBS, Need.DURATIONS)
_SCHEDULED: Needs = (Need.GPU_JOBS, Need.DURATIONS, Need.QUEUES)
_BY_JOBS: Needs = (Need.GPU_JOBS, Need.STARTS, Need.CAPACITY)
_LARGEST: Needs = (Need.GPU_JOBS, Need.CAPACITY)

FIGURES: tuple[Item, ...] = (
    _item("fig1a", "Duration of GPU jobs", ItemPart(_TIMED, figures.gpu_job_durations)),
    _item("fig1b", "GPU time by final state", ItemPart((*_TIMED, Need.STATES), statistics.gpu_time_by_state)),
    _item(
        "fig2a", "Utilisation by hour of day", ItemPart((Need.OCCUPANCY,), utilisation.utilisation_by_hour)
    ),
    _item(
        "fig2b",
        "GPU jobs submitted by hour of day",
        ItemPart((Need.SUBMISSIONS,), statistics.submissions_by_hour),
    ),
    _item(
        "fig3",
        "Submissions and utilisation by month",
        ItemPart((Need.SUBMISSIONS,), figures.submissions_by_month, "submissions"),
        ItemPart((Need.GPU_JOBS,), figures.sizes_by_month, "submissions by size"),
        ItemPart((Need.OCCUPANCY,), utilisation.utilisation_by_month, "utilisation"),
        ItemPart(_BY_JOBS, utilisation.utilisation_by_size_and_month, "utilisation by size"),
    ),
    _item(
        "fig4",
        "The ten largest virtual clusters",
        ItemPart((Need.VIRTUAL_CLUSTER_OCCUPANCY,), utilisation.largest_boxes, "utilisation"),
        ItemPart(_LARGEST, utilisation.demand_of_largest, "mean GPUs"),
        ItemPart((*_LARGEST, Need.DURATIONS, Need.QUEUES), utilisation.delays_of_largest, "delays"),
    ),
    _item("fig5a", "Duration of GPU jobs", ItemPart(_TIMED, figures.gpu_job_durations)),
    _item(
        "fig5b",
        "Duration of CPU jobs",
        ItemPart((Need.CPU_JOBS, Need.CPU_DURATIONS), figures.cpu_job_durations),
    ),
    _item("fig6a", "Size of jobs, by number of jobs", ItemPart((Need.GPU_JOBS,), figures.sizes_by_jobs)),
    _item("fig6b", "Size of jobs, by GPU time", ItemPart(_TIMED, figures.sizes_by_gpu_time)),
    _item(
        "fig7a",
        "Final states",
        ItemPart((Need.GPU_JOBS, Need.STATES), figures.gpu_jobs_by_state, "GPU jobs"),
        ItemPart((Need.CPU_JOBS, Need.CPU_STATES), figures.cpu_jobs_by_state, "CPU jobs"),
    ),
    _item("fig7b", "Final states by size", ItemPart((Need.GPU_JOBS, Need.STATES), figures.states_by_size)),
    _item("fig8a", "GPU time of the top users", ItemPart((Need.USERS, *_TIMED), figures.users_by_gpu_time)),
    _item(
        "fig8b",
        "CPU time of the top users",
        ItemPart((Need.USERS, Need.CPU_JOBS, Need.CPUS), figures.users_by_cpu_time),
    ),
    _item(
        "fig9a",
        "Queuing of the top users",
        ItemPart((Need.USERS, Need.GPU_JOBS, Need.QUEUES), figures.users_by_queuing),
    ),
    _item(
        "fig9b",
        "Users by their share of completed GPU jobs",
        ItemPart((Need.USERS, Need.GPU_JOBS, Need.STATES), figures.users_by_completion),
    ),
    _item("lorenz_users", "Lorenz curve of users", ItemPart((Need.USERS, *_TIMED), figures.lorenz_of_users)),
    _item(
        "lorenz_virtual_clusters",
        "Lorenz curve of virtual clusters",
        ItemPart((*_TIMED, Need.SEVERAL_VIRTUAL_CLUSTERS), utilisation.lorenz_of_virtual_clusters),
    ),
)


def _breakdown(name: str, title: str, needs: Needs, *extra: ItemPart, ends: bool = True) -> Item:
    """The parts that every breakdown has; `needs` are those of its key."""
    by, jobs = breakdowns.KEYS[name], (Need.GPU_JOBS, *needs)
    return Item(
        f"by_{name}",
        title,
        (
            ItemPart(jobs, partial(breakdowns.counts, key=by), "jobs"),
            ItemPart((*jobs, Need.DURATIONS), partial(breakdowns.times, key=by), "times"),
            ItemPart((*jobs, Need.QUEUES), partial(breakdowns.delays, key=by), "queuing"),
            *(
                [ItemPart((*jobs, Need.STATES), partial(breakdowns.ends, key=by), "final states")]
                if ends
                else []
            ),
            *extra,
        ),
        largest_first=name in ("virtual_cluster", "user"),
    )


TABLES: tuple[Item, ...] = (
    _item(
        "table1",
        "The cluster",
        ItemPart((Need.GPU_JOBS,), figures.cluster_jobs, "jobs"),
        ItemPart((Need.CAPACITY,), figures.cluster_nodes, "nodes"),
    ),
    _item(
        "table2",
        "The log",
        ItemPart((Need.GPU_JOBS,), figures.log_size, "jobs"),
        ItemPart(_TIMED, figures.log_durations, "durations"),
    ),
    _item("table3", "JCT and queuing, as logged", ItemPart(_SCHEDULED, waiting.schedule_table)),
    _item("table4", "Queuing by duration, as logged", ItemPart(_SCHEDULED, waiting.queuing_by_duration)),
    _breakdown(
        "virtual_cluster",
        "By virtual cluster",
        (),
        ItemPart((Need.VIRTUAL_CLUSTER_OCCUPANCY,), utilisation.utilisation_boxes, "utilisation"),
        ItemPart((Need.WAITING_GPUS,), utilisation.waiting_gpus, "waiting GPUs"),
    ),
    _breakdown("user", "By user", (Need.USERS,)),
    _breakdown("size", "By GPUs", ()),
    _breakdown("state", "By final state", (Need.STATES,), ends=False),
    _breakdown("hour", "By hour of day of submission", ()),
    _breakdown("month", "By month of submission", ()),
    _breakdown(
        "week",
        "Weeks compared",
        (),
        ItemPart((Need.GPU_JOBS,), breakdowns.days_by_week, "days"),
        ItemPart((Need.USERS, Need.GPU_JOBS), breakdowns.users_by_week, "users"),
        ItemPart((Need.OCCUPANCY,), breakdowns.utilisation_by_week, "utilisation"),
    ),
    _item("waste", "GPU time in vain", ItemPart((*_TIMED, Need.STATES), waste.lost_gpu_time)),
    _item(
        "waste_by_user",
        "Users with most GPU time in vain",
        ItemPart((*_TIMED, Need.STATES, Need.USERS), waste.lost_by_user),
    ),
    _item("time_limits", "Time limits asked and used", ItemPart((*_TIMED, Need.LIMITS), waste.unused_limits)),
    _item(
        "fragmentation",
        "GPUs that idle while jobs wait",
        ItemPart((*_BY_JOBS, Need.WAITS), waste.idle_while_waiting),
    ),
    _item(
        "waits_behind_users",
        "Whose jobs wait behind whose",
        ItemPart((Need.GPU_JOBS, Need.STARTS, Need.USERS, Need.WAITS), waiting.waits_behind_users),
    ),
    _item(
        "waits_behind_sizes",
        "Which sizes wait behind which",
        ItemPart((Need.GPU_JOBS, Need.STARTS, Need.WAITS), waiting.waits_behind_sizes),
    ),
)

NUMBERS: tuple[NumberGroup, ...] = (
    NumberGroup("submissions", (Need.SUBMISSIONS,), figures.submission_statistics),
    NumberGroup("sizes", (Need.GPU_JOBS,), statistics.size_statistics),
    NumberGroup("gpu_time", _TIMED, statistics.gpu_time_statistics),
    NumberGroup("durations", _TIMED, statistics.duration_statistics),
    NumberGroup("cpu_durations", (Need.CPU_JOBS, Need.CPU_DURATIONS), figures.cpu_duration_statistics),
    NumberGroup("utilisation", (Need.OCCUPANCY,), utilisation.utilisation_statistics),
    NumberGroup("utilisation_by_size", _BY_JOBS, utilisation.size_utilisation_statistics),
    NumberGroup("months", (Need.GPU_JOBS, Need.MONTHS), figures.month_statistics),
    NumberGroup("weeks", (Need.GPU_JOBS,), breakdowns.week_statistics),
    NumberGroup(
        "virtual_clusters",
        (*_TIMED, Need.SEVERAL_VIRTUAL_CLUSTERS),
        utilisation.virtual_cluster_statistics,
    ),
    NumberGroup("imbalance", (Need.VIRTUAL_CLUSTER_OCCUPANCY,), utilisation.imbalance_statistics),
    NumberGroup(
        "demand_correlation",
        (Need.GPU_JOBS, Need.VIRTUAL_CLUSTER_OCCUPANCY),
        utilisation.demand_correlation,
    ),
    NumberGroup("delay_correlation", (*_LARGEST, Need.DURATIONS, Need.QUEUES), utilisation.delay_correlation),
    NumberGroup("states", (Need.GPU_JOBS, Need.STATES), statistics.state_statistics),
    NumberGroup("state_gpu_time", (*_TIMED, Need.STATES), statistics.state_time_statistics),
    NumberGroup("failures", (*_TIMED, Need.STATES), figures.failure_statistics),
    NumberGroup("failures_waiting", (*_SCHEDULED, Need.STATES), figures.failure_waiting_statistics),
    NumberGroup("users", (Need.USERS, *_TIMED), statistics.user_statistics),
    NumberGroup("cpu_users", (Need.USERS, Need.CPU_JOBS, Need.CPUS), figures.cpu_user_statistics),
    NumberGroup("user_queuing", (Need.USERS, *_SCHEDULED), figures.user_queuing_statistics),
    NumberGroup("waiting", (Need.GPU_JOBS, Need.QUEUES), statistics.waiting_statistics),
    NumberGroup(
        "waits_behind", (Need.GPU_JOBS, Need.STARTS, Need.USERS, Need.WAITS), waiting.behind_others_statistics
    ),
    NumberGroup("waste", (*_TIMED, Need.STATES), waste.waste_statistics),
    NumberGroup("time_limits", (*_TIMED, Need.LIMITS), waste.limit_statistics),
    NumberGroup("fragmentation", (*_BY_JOBS, Need.WAITS), waste.fragmentation_statistics),
)


def parts_of(item: Item) -> Iterator[tuple[str, ItemPart]]:
    """Each part with the name by which it is dropped."""
    for part in item.parts:
        yield (f"{item.key}: {part.name}" if part.name else item.key), part


def lacking(log: ObservedLog, needs: Iterable[Need]) -> str | None:
    """The reason why a log cannot carry what has these needs: the first that it lacks; None: it can."""
    return next((reason for check, reason in map(_CHECKS.__getitem__, needs) if not check(log)), None)


def items_table() -> str:
    """Return figures and tables with what a log must have for them, for people."""
    rows = []
    for item in (*FIGURES, *TABLES):
        needs = dict.fromkeys(need.value for part in item.parts for need in part.needs)
        rows.append((f"`{item.key}`", item.title, ", ".join(needs)))
    return markdown_table(("key", "what", "needs, for all of it"), rows, align_numbers=False)
