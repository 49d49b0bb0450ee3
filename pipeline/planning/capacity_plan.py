"""One plan: all questions of an operator asked of one log, with the table and the front of what was tried."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from pipeline.planning.plan_rows import PlanTable, Prices, mark_front
from pipeline.planning.planned_log import PlannedLog
from pipeline.planning.planned_part import PlannedPart, check_parts, planned_parts
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.questions import PlanAnswer, Questions
from pipeline.planning.replays import PlanReplays
from pipeline.planning.size_search import SizeSearch
from pipeline.studies.wait_target import Resampling, WaitTarget

BUSIEST_PCT = 80.0  # of a cluster that is this full on average queues grow without end


@dataclass(frozen=True)
class PlanSettings:
    """What is asked of a log.

    `run` is the policy with its settings; `asked`: what is asked of parts, by their keys (`PlannedPart`).
    `points` are sizes of the cluster between the smallest of use and the present one that each variant is
    replayed on.
    """

    run: PlannedRun
    target: WaitTarget = field(default_factory=WaitTarget)
    resampling: Resampling = field(default_factory=Resampling)
    prices: Prices = field(default_factory=Prices)
    points: int = 12
    by_virtual_cluster: bool = True
    asked: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 2 <= self.points <= 1_000:
            raise BadInputError(f"{self.points} sizes cannot be tried.", remedy="Use 2 to 1,000.")

    def asked_of(self, part: PlannedPart) -> Any:
        """Return what is asked of a part."""
        return self.asked.get(part.key, part.nothing)

    def for_log(self, log: PlannedLog) -> "tuple[PlanSettings, tuple[str, ...]]":
        """Return the settings that a log allows, and a sentence for each that it does not.

        Raises BadInputError for what is asked and cannot be, NotFoundError where that takes a part that is
        not installed.
        """
        run, asked, parts = self.run, dict(self.asked), planned_parts()
        check_parts(self.asked, [part.key for part in parts])
        remarks: list[str] = []
        for part in parts:
            asked[part.key], run, said = part.for_log(self.asked_of(part), run, log)
            remarks += said
        return replace(self, run=run, asked=asked), tuple(remarks)

    @property
    def variants(self) -> tuple[PlannedRun, ...]:
        """The runs that are compared, that without any part first; their nodes are to be set."""
        variants = [self.run]
        for part in planned_parts():
            values = part.values(self.asked_of(part))
            variants = [run.with_part(part, value) for run in variants for value in values]
        return tuple(variants)


@dataclass(frozen=True)
class CapacityPlan:
    """Answers, and a row a replay of the cluster in proportion, variant by variant, by size."""

    answers: tuple[PlanAnswer, ...]
    rows: tuple[Mapping[str, Any], ...]
    remarks: tuple[str, ...]

    @property
    def front(self) -> tuple[Mapping[str, Any], ...]:
        """The rows of which none other has as few nodes, as little energy and as short waits."""
        return tuple(sorted((row for row in self.rows if row["on_front"]), key=lambda row: row["nodes"]))

    @property
    def monotone(self) -> bool:
        """Whether waits fall with nodes in every variant."""
        return not any(row["breaks"] for row in self.rows)


def make_plan(
    replays: PlanReplays, table: PlanTable, settings: PlanSettings, progress: Progress = silent
) -> CapacityPlan:
    """Answer all questions by replays. Raises BadInputError for settings that a replay refuses."""
    search = SizeSearch(replays, settings.target)
    questions = Questions(search, table)
    log, parts = table.log, planned_parts()
    present = sum(log.present.values())
    awake, *others = settings.variants
    answers = [questions.nodes_of_cluster(awake, max(present, search.least_nodes))]
    base = answers[0].figures["nodes"] or search.most_nodes
    sizes = _sizes(search, settings.points, base, max(present, search.least_nodes))
    for run in settings.variants:
        progress(0, None, f"sizes, {run.variant}")
        replays.of([search.sized(run, size) for size in sizes])
    compared = {
        "the present" if size == present else "least that keep the limit awake": size
        for size in dict.fromkeys((max(present, search.least_nodes), base))
    }
    for run in others:
        progress(0, None, f"nodes, {run.variant}")
        answers.append(questions.nodes_of_cluster(run, base))
        for part in reversed(parts):
            answers += part.answers(questions, run, answers, compared)
    if settings.by_virtual_cluster:
        progress(0, None, "virtual clusters")
        answers += questions.nodes_of_virtual_clusters(awake)
    for part in parts:
        answers += part.closing_answers(settings.asked_of(part), settings.run, log)
    rows = [row for run in settings.variants for row in table.rows(search.in_proportion(run))]
    mark_front(rows, settings.target.column)
    return CapacityPlan(tuple(answers), tuple(rows), tuple(_remarks(table, rows, search)))


def _sizes(search: SizeSearch, points: int, answer: int, present: int) -> list[int]:
    """Return sizes to replay, evenly spaced in ratio, from the smallest of use to present and answer."""
    busy_gpu_s = sum(job.gpus * job.duration_s for job in search.replays.log.jobs)
    log = search.replays.log
    mean_nodes = busy_gpu_s / max(log.days * 86_400, 1.0) / log.gpus_per_node * 100 / BUSIEST_PCT
    smallest = min(max(search.least_nodes, round(mean_nodes), 1), answer)
    largest = max(present, answer, smallest)
    spaced = np.geomspace(max(1, smallest), max(1, largest), points)
    return sorted({min(max(round(size), smallest), largest) for size in spaced.tolist()} | {answer, present})


def _remarks(table: PlanTable, rows: list[dict[str, Any]], search: SizeSearch) -> list[str]:
    log = table.log
    remarks = [*log.remarks]
    small = {name: least for name, least in log.least.items() if least > log.present[name]}
    if small:
        left_out = log.jobs_left_out(log.present)
        named = ", ".join(f"{name} {least}" for name, least in sorted(small.items()))
        remarks.append(
            f"{left_out:,} jobs are larger than their virtual cluster is at present and could never start; "
            f"the plan counts them, so that there must be at least: {named} nodes."
        )
    breaks = [row for row in rows if row["breaks"]]
    if breaks:
        beyond = sum(not row["within_interval"] for row in breaks)
        remarks.append(
            f"Waits do not fall everywhere as nodes are added ({len(breaks)} of {len(rows)} rows, {beyond} "
            "of them by more than the intervals allow): which job meets which is chance. isotonic_wait_s is "
            "the nearest sequence that falls."
        )
    if any(not row["reliable"] for row in rows):
        remarks.append(
            f"Intervals go by fewer than ten blocks of {table.resampling.block_days:g} days and one virtual "
            "cluster: too few to be relied on. Plan with a longer log."
        )
    return remarks
