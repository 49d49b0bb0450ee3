"""What to measure next, how long it takes, in which order: plans are made from the measurement table alone.

Solo profiles come first: they say which pairs fit the memory, and a pair teaches by how it differs from those
that are measured. Pairs are then taken so that they fill the space of their solo profiles (`space_filling`):
the next pair is the one that is least like all before it. Which order pays was measured (docs/profiling.md,
docs/decisions/0015-active-sampling-of-pairs.md). A plan reads nothing but solo profiles and measured pairs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profiler_jobs.method import Method
from profiler_jobs.profile_table import ProfileSet
from profiler_jobs.tasks import SEPARATOR, MeasurementTask, pair_tasks, solo_tasks
from profiler_jobs.workloads import JobType, list_job_types

Floats = NDArray[np.float64]

# Why a pair is not measured. The first that applies counts.
OUT_OF_MEMORY_ALONE = "a configuration is out of memory alone"
NOT_YET_ALONE = "a configuration is not measured alone yet"
NO_TRUSTED_PROFILE = "a configuration's solo measurement was refused"
TOO_BIG_TOGETHER = "solo memory adds up to more than the device has"
BEYOND_MOST = "more pairs than were asked for"
CENTRAL, UNLIKE = "the most central pair", "least like all before it"
# Pairs measured between two fits of the model of interference.
BATCH_PAIRS = 20
# Figures of a pair that a plan goes by, and how much each counts: interference follows summed utilisation.
PAIR_FIGURES = ("gpu_util_sum_pct", "gpu_util_max_pct", "gpu_util_min_pct", "gpu_mem_sum_mib")
_WEIGHTS = np.array([2.0, 1.0, 1.0, 1.0])


@dataclass(frozen=True)
class PlannedTask:
    """A task, about how long its run takes, and why it is where it is."""

    task: MeasurementTask
    expected_s: float
    why: str


@dataclass(frozen=True)
class Plan:
    """Tasks in their order: asked = planned + done + left out (by a named rule)."""

    planned: tuple[PlannedTask, ...]
    done: tuple[str, ...] = ()
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def tasks(self) -> tuple[MeasurementTask, ...]:
        """Return the tasks alone."""
        return tuple(each.task for each in self.planned)

    @property
    def undecided_pairs(self) -> int:
        """Return how many pairs wait for solo profiles: how many of them fit is not known yet."""
        return len(self.left_out.get(NOT_YET_ALONE, ()))

    @property
    def expected_s(self) -> float:
        """Return how long all of them take."""
        return math.fsum(each.expected_s for each in self.planned)

    def sessions(self, budget_s: float) -> tuple[int, ...]:
        """Return how many tasks each run of a command with this budget ends, until nothing more is ended.

        As `run_campaign` has it: a task that would not end in time is left, a shorter one after it is not.
        """
        waiting = [each.expected_s for each in self.planned]
        ended: list[int] = []
        while waiting:
            spent_s, left_over = 0.0, []
            for expected_s in waiting:
                if spent_s + expected_s > budget_s:
                    left_over.append(expected_s)
                else:
                    spent_s += expected_s
            if len(left_over) == len(waiting):
                break
            ended.append(len(waiting) - len(left_over))
            waiting = left_over
        return tuple(ended)


@dataclass(frozen=True)
class Ranked:
    """A pair in its place, and why."""

    task: MeasurementTask
    why: str


# From the solo profiles, the measured pairs (PAIR_SCHEMA), the pairs that are settled (measured, refused or
# out of memory) and the candidates to the candidates in the order in which to measure them.
PairRanking = Callable[
    [pd.DataFrame, pd.DataFrame, Sequence[MeasurementTask], Sequence[MeasurementTask]], list[Ranked]
]


def plan_solo(
    job_types: Sequence[JobType], settled: Sequence[str], *, method: Method, overhead_s: float
) -> Plan:
    """Plan the configurations that have no result yet, in their order; `settled` names the tasks with one."""
    tasks, settled_names = solo_tasks(job_types), set(settled)
    return Plan(
        tuple(
            PlannedTask(task, method.expected_s(task, overhead_s=overhead_s), "solo profile")
            for task in tasks
            if task.name not in settled_names
        ),
        tuple(task.name for task in tasks if task.name in settled_names),
    )


@dataclass(frozen=True)
class PairChoice:
    """Which pairs are measured: in which order, ranked anew after how many, and how many in all."""

    ranking: PairRanking | None = None  # None: space-filling
    batch: int = BATCH_PAIRS
    most: int | None = None


ALL_PAIRS = PairChoice()


def plan_pairs(
    job_types: Sequence[JobType],
    profiles: ProfileSet,
    settled: Sequence[str],
    *,
    memory_mib: float,
    method: Method,
    overhead_s: float,
    pairs: PairChoice = ALL_PAIRS,
) -> Plan:
    """Plan the pairs that are left of these configurations, the most telling first.

    `found` is what the table says so far, `settled` names its settled tasks in the order of measuring. The
    order follows from the first whole batches of settled pairs, so a campaign that was killed within a batch
    goes on with the same pairs. Those that are done count among the most pairs in all; what is beyond them is
    left out by that rule.
    """
    fitting, left_out = pairs_that_fit(job_types, profiles, settled, memory_mib)
    by_name = {task.name: task for task in fitting}
    done = [by_name[name] for name in settled if name in by_name]
    full_batches = done[: len(done) // pairs.batch * pairs.batch]
    known_names, done_names = {task.name for task in full_batches}, {task.name for task in done}
    measured = profiles.pairs[pair_names(profiles.pairs).isin(known_names)]
    candidates = [task for task in fitting if task.name not in known_names]
    ranked = (pairs.ranking or space_filling)(profiles.solo, measured, full_batches, candidates)
    ranked = [each for each in ranked if each.task.name not in done_names]
    if pairs.most is not None and len(ranked) > (wanted := max(0, pairs.most - len(done))):
        left_out[BEYOND_MOST] = tuple(sorted(each.task.name for each in ranked[wanted:]))
        ranked = ranked[:wanted]
    return Plan(
        tuple(
            PlannedTask(each.task, method.expected_s(each.task, overhead_s=overhead_s), each.why)
            for each in ranked
        ),
        tuple(task.name for task in done),
        left_out,
    )


def pairs_to_come(plan: Plan, *, method: Method, overhead_s: float, most: int | None) -> Plan:
    """Return as many stand-ins, for their time, as pairs may yet follow once all is measured alone.

    Some of the pairs that wait may not fit, so this is the most that can come.
    """
    waiting = plan.undecided_pairs
    if most is not None:
        planned_pairs = sum(task.is_pair for task in plan.tasks) + sum(
            SEPARATOR in name for name in plan.done
        )
        waiting = min(waiting, max(0, most - planned_pairs))
    job_type = list_job_types()[0]
    stand_in = MeasurementTask((job_type, job_type))
    expected_s = expected_pair_s(method, overhead_s=overhead_s)
    return Plan((PlannedTask(stand_in, expected_s, "waits for solo profiles"),) * waiting)


def expected_pair_s(method: Method, *, overhead_s: float) -> float:
    """Return how long the run of any pair takes."""
    job_type = list_job_types()[0]
    return method.expected_s(MeasurementTask((job_type, job_type)), overhead_s=overhead_s)


def pairs_that_fit(
    job_types: Sequence[JobType], found: ProfileSet, settled: Sequence[str], memory_mib: float
) -> tuple[list[MeasurementTask], dict[str, tuple[str, ...]]]:
    """Return the pairs (each configuration with itself too) that may fit, and the others' names by rule."""
    memory = dict(zip(found.solo["job_type"], found.solo["gpu_mem_mib"].astype(float), strict=True))
    alone = found.out_of_memory[found.out_of_memory["job_type_2"].isna()]
    too_big, tried = set(alone["job_type_1"]), set(settled)
    fitting: list[MeasurementTask] = []
    left_out: dict[str, list[str]] = {}
    for task in pair_tasks(job_types):
        names = [job_type.name for job_type in task.job_types]
        if too_big.intersection(names):
            rule = OUT_OF_MEMORY_ALONE
        elif any(name not in memory and name not in tried for name in names):
            rule = NOT_YET_ALONE
        elif any(name not in memory for name in names):
            rule = NO_TRUSTED_PROFILE
        elif sum(memory[name] for name in names) > memory_mib:
            rule = TOO_BIG_TOGETHER
        else:
            fitting.append(task)
            continue
        left_out.setdefault(rule, []).append(task.name)
    return fitting, {rule: tuple(names) for rule, names in left_out.items()}


def space_filling(
    solo: pd.DataFrame,
    measured: pd.DataFrame,
    settled: Sequence[MeasurementTask],
    candidates: Sequence[MeasurementTask],
) -> list[Ranked]:
    """Rank candidates so that every prefix fills the space: next is the one least like all before it.

    Maximin distance (Johnson, Moore and Ylvisaker, 1990), greedily; figures are compared by their ranks, so
    that a crowded region gets its share. The first of all is the most central pair; equal ones keep their
    order.
    """
    if not candidates:
        return []
    places = rank_places(pair_figures(solo, [*settled, *candidates]))
    have, offered = places[: len(settled)], places[len(settled) :]
    apart = np.full(len(offered), np.inf)
    for place in have:
        apart = np.minimum(apart, _distances(offered, place))
    central = int(np.argmin(_distances(offered, places.mean(axis=0))))
    ranked: list[Ranked] = []
    for position in range(len(offered)):
        opens = position == 0 and not settled
        next_at = central if opens else int(np.argmax(apart))
        ranked.append(Ranked(candidates[next_at], CENTRAL if opens else UNLIKE))
        apart = np.minimum(apart, _distances(offered, offered[next_at]))
        apart[next_at] = -np.inf
    return ranked


def pair_figures(solo: pd.DataFrame, pairs: Sequence[MeasurementTask]) -> Floats:
    """Return PAIR_FIGURES of pairs, shape (pairs, 4), from the solo profiles of both configurations."""
    profiles = solo.set_index("job_type")[["gpu_util_pct", "gpu_mem_mib"]].astype(float)
    first, second = (
        profiles.loc[[task.job_types[side].name for task in pairs]].to_numpy() for side in (0, 1)
    )
    return np.stack(
        [
            first[:, 0] + second[:, 0],
            np.maximum(first[:, 0], second[:, 0]),
            np.minimum(first[:, 0], second[:, 0]),
            first[:, 1] + second[:, 1],
        ],
        axis=1,
    )


def rank_places(figures: Floats) -> Floats:
    """Return each figure's rank among all rows, in (0, 1], weighted: where a pair lies among the pairs."""
    ranks = pd.DataFrame(figures).rank(method="average").to_numpy() / len(figures)
    return np.asarray(ranks * _WEIGHTS)


def _distances(places: Floats, place: Floats) -> Floats:
    return np.asarray(((places - place) ** 2).sum(axis=1))


def pair_names(pairs: pd.DataFrame) -> "pd.Series[str]":
    """Return the names of the tasks that pairs (PAIR_SCHEMA) were measured by."""
    return pairs["job_type_1"].astype(str) + SEPARATOR + pairs["job_type_2"].astype(str)
