"""Why each job waited: its queuing delay, split into causes that add up to it.

What keeps a job waiting at a moment depends only on its GPU demand, on its pool's free GPUs and on whether
the policy has looked since: so one set of clocks per pool and distinct demand, advanced when the pool's state
changes, serves all jobs that wait there. A job's share is the difference between the clocks at the start and
at the end of its wait. An event costs as much as there are distinct demands in the queue.
"""

from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Literal

import numpy as np
import pandas as pd

from simulator.job_view import JobView
from simulator.mechanisms.ranked_blocks import RankedBlocks
from simulator.node_inventory import cpu_pool
from simulator.placement import FreeGpus, Placement, exchanged
from simulator.recorder import StopReason
from simulator.result import SimulationResult
from simulator.snapshot import NodePool


class WaitCause(IntEnum):
    """What keeps a job waiting at a moment; the first that holds."""

    GPUS = 0  # fewer GPUs are free in its pool than it needs
    PLACEMENT = 1  # enough are free, but scattered over nodes: no consolidated gang placement
    TURN = 2  # a placement existed when the policy last decided, and others came first in its order
    ROUND = 3  # a placement exists, and the policy has not decided since it, or the job, came
    POLICY = 4  # a placement existed, no job was ahead in the queue, and the policy did not use it
    PROFILER = 5  # it waits in a partition that the policy set aside, such as Lucid's profiler


CAUSE_COLUMNS = {
    WaitCause.GPUS: "waited_for_gpus_s",
    WaitCause.PLACEMENT: "waited_for_placement_s",
    WaitCause.TURN: "waited_for_turn_s",
    WaitCause.ROUND: "waited_for_round_s",
    WaitCause.POLICY: "waited_for_policy_s",
    WaitCause.PROFILER: "waited_for_profiler_s",
}

# What a job waits for, in a word or two.
CAUSE_NAMES = {
    WaitCause.GPUS: "free GPUs",
    WaitCause.PLACEMENT: "a placement",
    WaitCause.TURN: "its turn",
    WaitCause.ROUND: "a round",
    WaitCause.POLICY: "the policy",
    WaitCause.PROFILER: "the profiler",
}

_Freed = StopReason | Literal["resized"]  # why GPUs came free

_GPUS, _PLACEMENT, _TURN, _ROUND = 0, 1, 2, 3
_CLOCKS = 4  # the causes that depend on the demand alone


class _Demand:
    """How long a gang of one size has been kept out of one pool, by cause, since the clocks began."""

    __slots__ = ("cause", "since_s", "totals", "waiting")

    def __init__(self) -> None:
        self.cause = _GPUS
        self.since_s = 0.0
        self.totals = [0.0] * _CLOCKS
        self.waiting = 0

    def switch(self, cause: int, at_s: float) -> None:
        self.totals[self.cause] += at_s - self.since_s
        self.since_s = at_s
        self.cause = cause

    def read(self, now_s: float) -> list[float]:
        totals = self.totals[:]
        totals[self.cause] += now_s - self.since_s
        return totals


class _Wait:
    """One spell of waiting."""

    __slots__ = ("base", "demand", "entry", "for_round_s", "held_s", "since_s", "undecided")

    def __init__(self, since_s: float, demand: _Demand | None, entry: object) -> None:
        self.since_s = since_s
        self.for_round_s = 0.0  # accounted so far
        self.demand = demand  # None: in a partition
        self.base = demand.read(since_s) if demand is not None else []
        self.held_s = 0.0  # of the time for TURN: no job was ahead
        self.undecided = True  # the policy has not decided since it began
        self.entry = entry


class _Record:
    """What is known of one job's waits."""

    __slots__ = (
        "at_home",
        "causes",
        "free_gpus",
        "gpus_ahead",
        "jobs_ahead",
        "left_home",
        "left_s",
        "released_by",
        "released_reason",
        "waits",
    )

    def __init__(self) -> None:
        self.causes = [0.0] * len(WaitCause)
        self.waits = 0
        self.at_home = False
        self.jobs_ahead = 0
        self.gpus_ahead = 0
        self.free_gpus = 0
        # When it first left the queue of its virtual cluster; of a partition, if it never came so far.
        self.left_s: float | None = None
        self.left_home = False
        self.released_by: str | None = None
        self.released_reason: str | None = None


class _Pool:
    """The clocks of one pool, and what has happened there since the policy last decided."""

    __slots__ = ("demands", "fresh", "head", "head_since_s", "order", "stale_s", "stops")

    def __init__(self) -> None:
        self.demands: dict[int, _Demand] = {}
        self.order = RankedBlocks()
        self.fresh: list[tuple[_Record, _Wait]] = []
        self.stops: list[tuple[str, _Freed, frozenset[int]]] = []
        self.stale_s: float | None = None  # since when the free GPUs differ from what the clocks know
        self.head: _Wait | None = None  # first in the queue, could be placed, and was not
        self.head_since_s = 0.0

    def catch_up(self, now_s: float, free: FreeGpus) -> None:
        """Let the clocks know what has been free since the last change, if no decision was made then."""
        if self.stale_s is not None and self.stale_s < now_s:
            self._classify(free, self.stale_s, decided=False)
            if self.head is not None and self.head.demand is not None and self.head.demand.cause != _TURN:
                self._settle_head(self.stale_s)
            self.stale_s = None

    def decided(self, now_s: float, free: FreeGpus) -> None:
        self._settle_head(now_s)
        self._classify(free, now_s, decided=True)
        self.stale_s = None
        self.fresh.clear()
        self.stops.clear()

    def lead(self, wait: _Wait, now_s: float) -> None:
        if wait.demand is not None and wait.demand.cause == _TURN:
            self.head = wait
            self.head_since_s = now_s

    def forget(self, wait: _Wait, now_s: float) -> None:
        if wait is self.head:
            self._settle_head(now_s)

    def _settle_head(self, now_s: float) -> None:
        if self.head is not None:
            self.head.held_s += now_s - self.head_since_s
            self.head = None

    def _classify(self, free: FreeGpus, at_s: float, *, decided: bool) -> None:
        total = free.total
        for gpus, demand in self.demands.items():
            if not demand.waiting:
                continue
            if gpus > total:
                cause = _GPUS
            elif free.find(gpus) is None:
                cause = _PLACEMENT
            elif decided or demand.cause == _TURN:
                cause = _TURN
            else:
                cause = _ROUND
            if cause != demand.cause:
                demand.switch(cause, at_s)


class WaitRecorder:
    """Watches a simulation (`simulator.recorder.Recorder`) and says why each job waited."""

    def __init__(self) -> None:
        self._records: dict[int, _Record] = {}
        self._open: dict[int, _Wait] = {}
        self._pools: dict[str, _Pool] = {}

    def queued(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """Start the clock of a spell of waiting."""
        record = self._records.get(job.index)
        if record is None:
            record = self._records[job.index] = _Record()
        mine = self._pool(pool)
        home = pool.name in (job.job.virtual_cluster, cpu_pool(job.job.virtual_cluster))
        if not record.waits or (home and not record.at_home):
            if job.queue_entry is not None:  # else it waits beside the queue, for its pool to grow
                record.jobs_ahead, record.gpus_ahead = mine.order.before(job.queue_entry)
            record.free_gpus = pool.free.total
            record.at_home = home
        record.waits += 1
        if job.queue_entry is not None:
            mine.order.add(job.queue_entry, job.gpus)
        if not home:
            self._open[job.index] = _Wait(now_s, None, job.queue_entry)
            return
        mine.catch_up(now_s, pool.free)
        demand = mine.demands.get(job.gpus)
        if demand is None:
            demand = mine.demands[job.gpus] = _Demand()
        if not demand.waiting:
            demand.cause, demand.since_s = _GPUS, now_s  # until the next look, at this very moment
        demand.waiting += 1
        wait = self._open[job.index] = _Wait(now_s, demand, job.queue_entry)
        mine.fresh.append((record, wait))
        mine.stale_s = now_s

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """Stop the clock, and say which job's end made room."""
        mine = self._pool(pool)
        if mine.stale_s is not None and mine.stale_s < now_s:
            before = pool.free
            if job.partner is None and job.placement is not None:
                before = before.copy()
                before.give(job.placement)
            mine.catch_up(now_s, before)
        blocked_s = self._close(now_s, job, mine)
        record = self._records[job.index]
        if blocked_s > 0:
            record.released_by, record.released_reason = _released_by(job, mine.stops)
        mine.stale_s = now_s

    def resized(self, now_s: float, job: JobView, pool: NodePool, before: Placement) -> None:
        """Remember which job gave up GPUs."""
        mine = self._pool(pool)
        given, taken = exchanged(before, job.placement or ())
        if mine.stale_s is not None and mine.stale_s < now_s:
            free = pool.free.copy()
            free.give(taken)
            free.take(tuple((node, gpus) for node, gpus in given if free.is_present(node)))
            mine.catch_up(now_s, free)
        if given:
            mine.stops.append((job.job.job_id, "resized", frozenset(node for node, _ in given)))
        mine.stale_s = now_s

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """Remember the job whose GPUs came free; a job that was cancelled while it waited waits no more."""
        mine = self._pool(pool)
        mine.catch_up(now_s, pool.free)
        if job.index in self._open:
            self._close(now_s, job, mine)
        else:
            nodes = frozenset(node for node, _ in job.placement or ())
            mine.stops.append((job.job.job_id, reason, nodes))
        mine.stale_s = now_s

    def decided(self, now_s: float, pools: Collection[NodePool]) -> None:
        """Set the clocks by what is free after the policy's actions."""
        for pool in pools:
            mine = self._pools.get(pool.name)
            if mine is None:
                continue
            mine.catch_up(now_s, pool.free)  # the policy did nothing here: else it is done already
            for record, wait in mine.fresh:
                if wait.undecided:
                    self._account(now_s, record, wait)
                    wait.undecided = False
            mine.decided(now_s, pool.free)
            if len(pool.queue):
                wait_of_first = self._open.get(pool.queue.first.index)
                if wait_of_first is not None:
                    mine.lead(wait_of_first, now_s)

    def _pool(self, pool: NodePool) -> _Pool:
        mine = self._pools.get(pool.name)
        if mine is None:
            mine = self._pools[pool.name] = _Pool()
        return mine

    def _account(self, now_s: float, record: _Record, wait: _Wait) -> None:
        """Add what the clocks say since the wait's base to the record, and set the base anew."""
        if wait.demand is None or wait.since_s == now_s:
            return
        now = wait.demand.read(now_s)
        spans = [after - before for after, before in zip(now, wait.base, strict=True)]
        if wait.undecided:
            # No job came first in a decision that has not been made.
            spans[_ROUND] += spans[_TURN]
            spans[_TURN] = 0.0
        wait.for_round_s += spans[_ROUND]
        for cause, span_s in enumerate(spans):
            record.causes[cause] += span_s
        wait.base = now

    def _close(self, now_s: float, job: JobView, mine: _Pool) -> float:
        """End a spell; return for how long others stood in its way: not just the policy's clock."""
        wait = self._open.pop(job.index)
        record = self._records[job.index]
        if wait.entry is not None:
            mine.order.remove(wait.entry)
        waited_s = now_s - wait.since_s
        if wait.demand is None:
            record.causes[WaitCause.PROFILER] += waited_s
        else:
            mine.forget(wait, now_s)
            self._account(now_s, record, wait)
            wait.undecided = False
            wait.demand.waiting -= 1
            record.causes[_TURN] -= wait.held_s
            record.causes[WaitCause.POLICY] += wait.held_s
        if not record.left_home:
            record.left_s = now_s
            record.left_home = wait.demand is not None
        return waited_s - wait.for_round_s

    def table(self, result: SimulationResult) -> pd.DataFrame:
        """Return one row a job, in the result's order: its causes (s) add up to its `queuing_delay_s`.

        Beside them: `waits` (spells of waiting), and of the moment when it joined the queue of its virtual
        cluster `jobs_ahead` and `gpus_ahead` of it in the policy's order, and `free_gpus` then;
        `overtaken_by` later submitted jobs of the virtual cluster that left the queue before it;
        `released_by`, the job whose end (`released_reason`: why it ended) let it start after its last wait.
        """
        jobs = result.jobs
        records = [self._records.get(index) or _Record() for index in range(len(jobs))]
        causes = np.array([record.causes for record in records], dtype=np.float64).reshape(
            len(jobs), len(WaitCause)
        )
        # Clocks run for months and waits last for seconds: what rounding left over goes to the largest cause.
        left_over = jobs["queuing_delay_s"].to_numpy() - causes.sum(axis=1)
        if len(jobs):
            causes[np.arange(len(jobs)), causes.argmax(axis=1)] += left_over
        return pd.DataFrame(
            {
                **{
                    name: jobs[name]
                    for name in (
                        "job_id",
                        "virtual_cluster",
                        "user",
                        "gpus",
                        "state",
                        "submit_time_s",
                        "first_start_time_s",
                        "queuing_delay_s",
                    )
                },
                **{column: causes[:, cause] for cause, column in CAUSE_COLUMNS.items()},
                "waits": [record.waits for record in records],
                "jobs_ahead": [record.jobs_ahead for record in records],
                "gpus_ahead": [record.gpus_ahead for record in records],
                "free_gpus": [record.free_gpus for record in records],
                "overtaken_by": _overtaken(jobs, records),
                "released_by": pd.array([record.released_by for record in records], dtype="str"),
                "released_reason": pd.array([record.released_reason for record in records], dtype="str"),
            }
        )


def mean_waits(waits: pd.DataFrame) -> dict[str, float]:
    """Return the mean of each cause over the jobs of a table of waits (s): they add up to the mean delay."""
    return {column: float(waits[column].mean()) if len(waits) else 0.0 for column in CAUSE_COLUMNS.values()}


def _released_by(
    job: JobView, stops: Iterable[tuple[str, _Freed, frozenset[int]]]
) -> tuple[str | None, _Freed | None]:
    """Choose, of the runs that ended since the last decision, the last that freed a node of the job's own;
    failing that the last of all: it let a job ahead start.
    """
    nodes = {node for node, _ in job.placement or ()}
    last: tuple[str | None, _Freed | None] = (None, None)
    own = False
    for job_id, reason, freed in stops:
        on_own = not nodes.isdisjoint(freed)
        if on_own or not own:
            last, own = (job_id, reason), on_own
    return last


def _overtaken(jobs: pd.DataFrame, records: list[_Record]) -> list[int]:
    """Count, for each job, those of its virtual cluster that came later and left the queue earlier."""
    counts = [0] * len(records)
    submit = jobs["submit_time_s"].to_numpy()
    started = jobs["first_start_time_s"].notna().to_numpy()
    kinds = zip(jobs["virtual_cluster"], jobs["gpus"] > 0, strict=True)
    groups: dict[tuple[str, bool], list[int]] = {}
    for row, kind in enumerate(kinds):
        if records[row].left_s is not None:
            groups.setdefault(kind, []).append(row)
    for rows in groups.values():
        seen = RankedBlocks()
        rows.sort(key=lambda row: -submit[row])
        pending: list[int] = []
        for row in rows:
            if pending and submit[pending[0]] != submit[row]:
                for later in pending:
                    if started[later]:
                        seen.add((records[later].left_s, later), 1)
                pending = []
            pending.append(row)
            counts[row] = seen.before((records[row].left_s, -1))[0]
    return counts
