"""One plan: all questions of an operator asked of one log, with the table and the front of what was tried."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from pipeline.planning.answers import PlanAnswer
from pipeline.planning.inference_servers import servers_of_inference
from pipeline.planning.plan_rows import PlanTable, Prices, mark_front
from pipeline.planning.planned_log import PlannedLog
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.questions import Questions
from pipeline.planning.replays import PlanReplays
from pipeline.planning.size_search import SizeSearch
from pipeline.planning.wait_target import Resampling, WaitTarget
from simulator.loaning.inference_service import InferenceService
from simulator.loaning.policy_beside_inference import LOANING, borrows_itself
from simulator.loaning.settings import LoanSettings
from simulator.policies.loading import policy_for

BUSIEST_PCT = 80.0  # of a cluster that is this full on average queues grow without end


@dataclass(frozen=True)
class PlanSettings:
    """What is asked of a log.

    `run` is the policy with its settings; `sleeps` are settings of nodes that sleep, one a variant. `points`
    are sizes of the cluster between the smallest of use and the present one that each variant is replayed on.
    """

    run: PlannedRun
    target: WaitTarget = field(default_factory=WaitTarget)
    resampling: Resampling = field(default_factory=Resampling)
    prices: Prices = field(default_factory=Prices)
    sleeps: tuple[Mapping[str, Any], ...] = ()
    points: int = 12
    by_virtual_cluster: bool = True
    loans: bool | None = None  # whether each variant is replayed with servers on loan, too; None: if it can
    most_short_pct: float = 2.0  # of the bins of inference load that may lack servers

    def __post_init__(self) -> None:
        if not 2 <= self.points <= 1_000:
            raise BadInputError(f"{self.points} sizes cannot be tried.", remedy="Use 2 to 1,000.")
        if not 0 <= self.most_short_pct <= 100:
            raise BadInputError(f"most_short_pct is {self.most_short_pct!r}.", remedy="Use 0 to 100.")

    def for_log(self, log: PlannedLog) -> "tuple[PlanSettings, tuple[str, ...]]":
        """Return what can be asked of a log: whether of loans, too, and remarks where not.

        Raises BadInputError for what is asked and cannot be.
        """
        if self.sleeps and log.one_pool:
            raise BadInputError(
                "One pool of GPUs has no nodes that could sleep.",
                remedy="Give a file of nodes; one virtual cluster named all takes every job.",
            )
        if self.loans is False or (self.loans is None and log.scenario.lender is None):
            return self._without_loans(log), ()
        if log.scenario.lender is None:
            raise BadInputError(
                "Nothing can be lent: there is no inference load of a known number of servers.",
                remedy="Give the load of its servers.",
            )
        try:
            policy_for(log.scenario, self.run.policy, replace(self.run, loaning=True).all_settings)
        except BadInputError as error:
            if self.loans:
                raise
            return self._without_loans(log), (f"Nothing is lent. {error}",)
        return replace(self, loans=True), ()

    def _without_loans(self, log: PlannedLog) -> "PlanSettings":
        """Return the same without loans, also of a policy that would lend by itself."""
        run, scenario = self.run, log.scenario
        if scenario.lender is not None and borrows_itself(run.policy, scenario.rules):
            run = replace(run, settings={**run.settings, LOANING: False})
        return replace(self, run=run, loans=False)

    @property
    def variants(self) -> tuple[PlannedRun, ...]:
        """The runs that are compared: all awake without loans first; their nodes are to be set."""
        lent = (False, True) if self.loans else (None,)
        sleeps: tuple[Mapping[str, Any], ...] = ({}, *self.sleeps)
        return tuple(
            replace(self.run, node_sleep=dict(sleep), loaning=loaning) for loaning in lent for sleep in sleeps
        )


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
    log = table.log
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
        with_change = questions.nodes_of_cluster(run, base)
        answers.append(with_change)
        if run.node_sleep:
            answers += questions.cost_of_sleep(run, replace(run, node_sleep={}), compared)
        if run.loaning:
            variant = replace(run, loaning=False).variant
            without = next(answer for answer in answers if answer.variant == variant)
            answers += questions.savings_of_loans(run, (with_change, without), compared)
    if settings.by_virtual_cluster:
        progress(0, None, "virtual clusters")
        answers += questions.nodes_of_virtual_clusters(awake)
    service = log.scenario.companion(InferenceService)
    if service is not None:
        answers += servers_of_inference(
            service,
            headroom=float(settings.run.settings.get("headroom", LoanSettings().headroom)),
            most_short_pct=settings.most_short_pct,
            lending=bool(settings.loans),
        )
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
