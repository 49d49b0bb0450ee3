"""One cycle of Slurm's backfill scheduler (sched/backfill).

Waiting jobs are tried in their order. Each starts now if it can without delaying a reservation, and else gets
one for the earliest time at which it can run if all run to their time limits: whole nodes, from then until
its own limit, both rounded down to bf_resolution. Later jobs plan around all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, zip_longest
from typing import Protocol

from cluster_logs.site.rules import SchedulerRules
from simulator.cluster.placement import NOWHERE, Placement
from simulator.slurm.ranking import QueueStanding
from simulator.slurm.room import NodeRoom, mask_of

# Running jobs that end close together are taken as one step: 30 s at first, and twice as long after each try.
FIRST_STEP_S = 30.0
# For how long a job without any limit is taken to run.
ENDLESS_S = 365 * 86_400.0


@dataclass(slots=True)
class Span:
    """Nodes that are free of reservations from one time to another."""

    begin_s: float
    end_s: float
    nodes: int


@dataclass(frozen=True, slots=True)
class LimitedRun:
    """A running job, and when its time limit ends it."""

    standing: QueueStanding
    end_s: float
    placement: Placement
    nodes: int


class Starter(Protocol):
    """What a cycle asks of its scheduler."""

    def may_start(self, standing: QueueStanding) -> bool:
        """Whether no limit holds a job back."""

    def nodes_of(self, standing: QueueStanding) -> int:
        """The nodes of a job's partition that are there."""

    def start(self, standing: QueueStanding, placement: Placement) -> None:
        """Start a job now."""

    def candidates(self, standing: QueueStanding) -> Sequence[QueueStanding]:
        """The running jobs that it may stop."""

    def preempt(self, standing: QueueStanding, among: int) -> Sequence[QueueStanding]:
        """Have others go for it; say which."""


class BackfillCycle:
    """A cycle in one partition. `room` is planned on: what starts is taken from it."""

    def __init__(
        self,
        rules: SchedulerRules,
        room: NodeRoom,
        runs: Iterable[LimitedRun],
        now_s: float,
        clearing: int = 0,
    ) -> None:
        self._rules = rules
        self._clearing = clearing  # nodes that stopped jobs have not left yet: nothing starts there
        self._room = room
        self._now_s = now_s
        self._runs = sorted(runs, key=_end)
        begin_s = self._rounded(now_s)
        self._window_s = self._rounded(now_s + rules.bf_window_s)
        self._spans = [Span(begin_s, self._window_s, room.nodes)]
        # (GPUs, nodes, on one) -> when a job can start there, and where; until a job starts
        self._known: dict[tuple[int, int, bool], tuple[float, Placement] | None] = {}

    def _rounded(self, at_s: float) -> float:
        return at_s // self._rules.bf_resolution_s * self._rules.bf_resolution_s

    def run(self, waiting: Iterable[QueueStanding], scheduler: Starter) -> None:
        """Try jobs in their order."""
        rules = self._rules
        tried = started = 0
        by_user: dict[str, int] = {}
        by_partition: dict[str, int] = {}
        for standing in waiting:
            if tried >= rules.bf_max_job_test:
                break
            if not scheduler.may_start(standing):
                continue
            if rules.bf_max_job_part and by_partition.get(standing.partition, 0) >= rules.bf_max_job_part:
                continue
            if rules.bf_max_job_user and by_user.get(standing.user, 0) >= rules.bf_max_job_user:
                continue
            by_user[standing.user] = by_user.get(standing.user, 0) + 1
            by_partition[standing.partition] = by_partition.get(standing.partition, 0) + 1
            tried += 1
            started += self._try(standing, scheduler)
            if rules.bf_max_job_start and started >= rules.bf_max_job_start:
                break

    def _try(self, standing: QueueStanding, scheduler: Starter) -> bool:
        """Start a job, or reserve nodes for it; say whether it starts."""
        now_s, limit_s, gpus = self._now_s, standing.limit_s, standing.job.gpus
        later_s = now_s
        own_nodes = scheduler.nodes_of(standing)
        while True:
            from_s = later_s
            nodes, later_s = self._nodes_free(own_nodes, from_s, from_s + limit_s)
            found = (
                self._first_start(standing, nodes, scheduler) if nodes.bit_count() >= standing.nodes else None
            )
            if found is None:
                if later_s:
                    continue
                return False
            at_s, placement = max(found[0], from_s), found[1]
            if at_s <= now_s and mask_of(placement) & self._clearing:
                at_s, later_s = now_s + 1.0, 0.0
            if at_s <= now_s:
                where = self._room.find(gpus, nodes, whole=standing.whole)
                if where is not None:
                    scheduler.start(standing, where)
                    self._room.take(where)
                    self._runs.append(LimitedRun(standing, now_s + limit_s, where, mask_of(where)))
                    self._runs.sort(key=_end)
                    self._known.clear()
                    return True
                going = scheduler.preempt(standing, nodes)
                # Their GPUs count as free at once, but nothing starts on a node before they have left it.
                self._runs = [run for run in self._runs if run.standing not in going]
                for each in going:
                    self._room.give(each.job.placement or NOWHERE)
                    self._clearing |= mask_of(each.job.placement or NOWHERE)
                    self._known.clear()
                later_s = 0.0
            if later_s and at_s > later_s:
                continue
            if at_s > now_s + self._rules.bf_window_s:
                return False
            begin_s, end_s = self._rounded(at_s), self._rounded(at_s + limit_s)
            reserved = mask_of(placement)
            if at_s > now_s and self._overlaps(reserved, begin_s, end_s):
                later_s = at_s
                continue
            if self._waits_too_short(standing):
                return False
            self._reserve(reserved, begin_s, end_s)
            return False

    def _waits_too_short(self, standing: QueueStanding) -> bool:
        """Whether a job gets no reservation yet (bf_min_age_reserve)."""
        return self._now_s - standing.eligible_s < self._rules.bf_min_age_reserve_s

    def _nodes_free(self, among: int, from_s: float, until_s: float) -> tuple[int, float]:
        """Return the nodes without a reservation meanwhile, and from when on others may be (0: never)."""
        nodes, later_s = among, 0.0
        spans = self._spans
        for at, span in enumerate(spans):
            following = spans[at + 1] if at + 1 < len(spans) else None
            if span.end_s > from_s and following is not None and not later_s:
                gained = among & following.nodes & ~(nodes & span.nodes)
                if gained:
                    later_s = span.end_s
            if span.end_s <= from_s:
                continue
            if span.begin_s > until_s:
                break
            nodes &= span.nodes
        return nodes, later_s

    def _first_start(
        self, standing: QueueStanding, nodes: int, scheduler: Starter
    ) -> tuple[float, Placement] | None:
        """Return when and where a job can start on these nodes; now, if others go for it."""
        candidates = scheduler.candidates(standing)
        if candidates:
            return self._look_ahead(standing, nodes, candidates)
        key = (standing.job.gpus, nodes, standing.whole)
        if key not in self._known:
            self._known[key] = self._look_ahead(standing, nodes, ())
        return self._known[key]

    def _look_ahead(
        self, standing: QueueStanding, nodes: int, candidates: Sequence[QueueStanding]
    ) -> tuple[float, Placement] | None:
        gpus, whole = standing.job.gpus, standing.whole
        placement = self._room.find(gpus, nodes, whole=whole)
        if placement is not None:
            return self._now_s, placement
        plan = self._room.copy()
        if candidates:
            for each in candidates:
                plan.give(each.job.placement or NOWHERE)
            placement = plan.find(gpus, nodes, whole=whole)
            if placement is not None:
                return self._now_s, placement
        runs = [run for run in self._runs if run.standing not in candidates] if candidates else self._runs
        step_s, barrier_s = FIRST_STEP_S, 0.0
        last: LimitedRun | None = None
        for run, following in zip_longest(runs, islice(runs, 1, None)):
            if run.nodes & nodes:
                if not barrier_s:
                    barrier_s = (run.end_s // step_s + 1) * step_s
                last = run
                plan.give(run.placement)
                # Slurm looks only here whether the step is over: a job on other nodes never ends one, and
                # the job behind it belongs to the step however much later it ends.
                if following is not None and following.end_s <= barrier_s + step_s:
                    continue
            elif following is not None or last is None:
                continue
            step_s *= 2
            while following is not None and following.end_s > barrier_s + step_s:
                step_s *= 2
            placement = plan.find(gpus, nodes, whole=whole)
            if placement is not None and last is not None:
                return max(last.end_s, self._now_s + 1), placement
            last = None
        return None

    def _overlaps(self, nodes: int, begin_s: float, end_s: float) -> bool:
        return any(
            span.end_s > begin_s and span.begin_s < end_s and nodes & ~span.nodes for span in self._spans
        )

    def _reserve(self, nodes: int, begin_s: float, end_s: float) -> None:
        """Take nodes off the plan for a time; at least one bf_resolution long."""
        begin_s = max(begin_s, self._spans[0].begin_s)
        end_s = max(end_s, begin_s + self._rules.bf_resolution_s)
        spans: list[Span] = []
        for span in self._spans:
            cuts = [
                span.begin_s,
                *(at_s for at_s in (begin_s, end_s) if span.begin_s < at_s < span.end_s),
                span.end_s,
            ]
            for first_s, last_s in pairwise(cuts):
                inside = first_s >= begin_s and last_s <= end_s
                left = span.nodes & ~nodes if inside else span.nodes
                if spans and spans[-1].nodes == left:
                    spans[-1].end_s = last_s
                else:
                    spans.append(Span(first_s, last_s, left))
        self._spans = spans


def _end(run: LimitedRun) -> tuple[float, int]:
    """Order by end; equal ends by submission."""
    return run.end_s, run.standing.job.index
