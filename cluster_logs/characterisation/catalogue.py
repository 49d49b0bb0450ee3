"""Every figure, table and group of numbers: what it is made of and what each part needs.

An item is made of parts that share an index (hours, months, virtual clusters); a log that lacks what a part
needs drops this part by name, the rest stands.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pandas as pd

from cluster_logs.characterisation import (
    breakdowns,
    durations,
    sizes,
    states,
    submissions,
    summary_tables,
    users,
    utilisation,
    virtual_clusters,
    waiting,
    waste,
)
from cluster_logs.characterisation.needs import Need
from cluster_logs.characterisation.observed_log import ObservedLog

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
    _item("fig1a", "Duration of GPU jobs", ItemPart(_TIMED, durations.gpu_job_durations)),
    _item("fig1b", "GPU time by final state", ItemPart((*_TIMED, Need.STATES), states.gpu_time_by_state)),
    _item(
        "fig2a", "Utilisation by hour of day", ItemPart((Need.OCCUPANCY,), utilisation.utilisation_by_hour)
    ),
    _item(
        "fig2b",
        "GPU jobs submitted by hour of day",
        ItemPart((Need.SUBMISSIONS,), submissions.submissions_by_hour),
    ),
    _item(
        "fig3",
        "Submissions and utilisation by month",
        ItemPart((Need.SUBMISSIONS,), submissions.submissions_by_month, "submissions"),
        ItemPart((Need.GPU_JOBS,), submissions.sizes_by_month, "submissions by size"),
        ItemPart((Need.OCCUPANCY,), utilisation.utilisation_by_month, "utilisation"),
        ItemPart(_BY_JOBS, utilisation.utilisation_by_size_and_month, "utilisation by size"),
    ),
    _item(
        "fig4",
        "The ten largest virtual clusters",
        ItemPart((Need.VIRTUAL_CLUSTER_OCCUPANCY,), virtual_clusters.largest_boxes, "utilisation"),
        ItemPart(_LARGEST, virtual_clusters.demand_of_largest, "mean GPUs"),
        ItemPart((*_LARGEST, Need.DURATIONS, Need.QUEUES), virtual_clusters.delays_of_largest, "delays"),
    ),
    _item("fig5a", "Duration of GPU jobs", ItemPart(_TIMED, durations.gpu_job_durations)),
    _item(
        "fig5b",
        "Duration of CPU jobs",
        ItemPart((Need.CPU_JOBS, Need.CPU_DURATIONS), durations.cpu_job_durations),
    ),
    _item("fig6a", "Size of jobs, by number of jobs", ItemPart((Need.GPU_JOBS,), sizes.sizes_by_jobs)),
    _item("fig6b", "Size of jobs, by GPU time", ItemPart(_TIMED, sizes.sizes_by_gpu_time)),
    _item(
        "fig7a",
        "Final states",
        ItemPart((Need.GPU_JOBS, Need.STATES), states.gpu_jobs_by_state, "GPU jobs"),
        ItemPart((Need.CPU_JOBS, Need.CPU_STATES), states.cpu_jobs_by_state, "CPU jobs"),
    ),
    _item("fig7b", "Final states by size", ItemPart((Need.GPU_JOBS, Need.STATES), states.states_by_size)),
    _item("fig8a", "GPU time of the top users", ItemPart((Need.USERS, *_TIMED), users.users_by_gpu_time)),
    _item(
        "fig8b",
        "CPU time of the top users",
        ItemPart((Need.USERS, Need.CPU_JOBS, Need.CPUS), users.users_by_cpu_time),
    ),
    _item(
        "fig9a",
        "Queuing of the top users",
        ItemPart((Need.USERS, Need.GPU_JOBS, Need.QUEUES), users.users_by_queuing),
    ),
    _item(
        "fig9b",
        "Users by their share of completed GPU jobs",
        ItemPart((Need.USERS, Need.GPU_JOBS, Need.STATES), users.users_by_completion),
    ),
    _item("lorenz_users", "Lorenz curve of users", ItemPart((Need.USERS, *_TIMED), users.lorenz_of_users)),
    _item(
        "lorenz_virtual_clusters",
        "Lorenz curve of virtual clusters",
        ItemPart((*_TIMED, Need.SEVERAL_VIRTUAL_CLUSTERS), virtual_clusters.lorenz_of_virtual_clusters),
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
        ItemPart((Need.GPU_JOBS,), summary_tables.cluster_jobs, "jobs"),
        ItemPart((Need.CAPACITY,), summary_tables.cluster_nodes, "nodes"),
    ),
    _item(
        "table2",
        "The log",
        ItemPart((Need.GPU_JOBS,), summary_tables.log_size, "jobs"),
        ItemPart(_TIMED, summary_tables.log_durations, "durations"),
    ),
    _item("table3", "JCT and queuing, as logged", ItemPart(_SCHEDULED, waiting.schedule_table)),
    _item("table4", "Queuing by duration, as logged", ItemPart(_SCHEDULED, waiting.queuing_by_duration)),
    _breakdown(
        "virtual_cluster",
        "By virtual cluster",
        (),
        ItemPart((Need.VIRTUAL_CLUSTER_OCCUPANCY,), virtual_clusters.utilisation_boxes, "utilisation"),
        ItemPart((Need.WAITING_GPUS,), virtual_clusters.waiting_gpus, "waiting GPUs"),
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
    NumberGroup("submissions", (Need.SUBMISSIONS,), submissions.submission_statistics),
    NumberGroup("sizes", (Need.GPU_JOBS,), sizes.size_statistics),
    NumberGroup("gpu_time", _TIMED, sizes.gpu_time_statistics),
    NumberGroup("durations", _TIMED, durations.duration_statistics),
    NumberGroup("cpu_durations", (Need.CPU_JOBS, Need.CPU_DURATIONS), durations.cpu_duration_statistics),
    NumberGroup("utilisation", (Need.OCCUPANCY,), utilisation.utilisation_statistics),
    NumberGroup("utilisation_by_size", _BY_JOBS, utilisation.size_utilisation_statistics),
    NumberGroup("months", (Need.GPU_JOBS, Need.MONTHS), submissions.month_statistics),
    NumberGroup("weeks", (Need.GPU_JOBS,), breakdowns.week_statistics),
    NumberGroup(
        "virtual_clusters",
        (*_TIMED, Need.SEVERAL_VIRTUAL_CLUSTERS),
        virtual_clusters.virtual_cluster_statistics,
    ),
    NumberGroup("imbalance", (Need.VIRTUAL_CLUSTER_OCCUPANCY,), virtual_clusters.imbalance_statistics),
    NumberGroup(
        "demand_correlation",
        (Need.GPU_JOBS, Need.VIRTUAL_CLUSTER_OCCUPANCY),
        virtual_clusters.demand_correlation,
    ),
    NumberGroup(
        "delay_correlation", (*_LARGEST, Need.DURATIONS, Need.QUEUES), virtual_clusters.delay_correlation
    ),
    NumberGroup("states", (Need.GPU_JOBS, Need.STATES), states.state_statistics),
    NumberGroup("state_gpu_time", (*_TIMED, Need.STATES), states.state_time_statistics),
    NumberGroup("failures", (*_TIMED, Need.STATES), states.failure_statistics),
    NumberGroup("failures_waiting", (*_SCHEDULED, Need.STATES), states.failure_waiting_statistics),
    NumberGroup("users", (Need.USERS, *_TIMED), users.user_statistics),
    NumberGroup("cpu_users", (Need.USERS, Need.CPU_JOBS, Need.CPUS), users.cpu_user_statistics),
    NumberGroup("user_queuing", (Need.USERS, *_SCHEDULED), users.user_queuing_statistics),
    NumberGroup("waiting", (Need.GPU_JOBS, Need.QUEUES), waiting.waiting_statistics),
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
