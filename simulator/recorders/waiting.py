"""Why each job waited: its queuing delay, split into causes that add up to it.

What keeps a job waiting at a moment depends only on its GPU demand, on its pool's free GPUs and on whether
the policy has looked since: so one set of clocks per pool and distinct demand, advanced when the pool's state
changes, serves all jobs that wait there. A job's share is the difference between the clocks at the start and
at the end of its wait. An event costs as much as there are distinct demands in the queue.
"""

from collections.abc import Collection, Iterable

import numpy as np
import pandas as pd

from simulator.cluster.placement import NOWHERE, Placement, exchanged
from simulator.engine.node_inventory import cpu_pool
from simulator.job_view import JobView
from simulator.mechanisms.ranked_blocks import RankedBlocks
from simulator.recorder import Recorder, StopReason
from simulator.recorders.wait_clocks import (
    CAUSE_COLUMNS,
    GPUS,
    ROUND,
    TURN,
    DemandClock,
    Freed,
    PoolClocks,
    WaitCause,
    WaitRecord,
    WaitSpell,
)
from simulator.results.result import SimulationResult
from simulator.snapshot import NodePool


class WaitRecorder(Recorder):
    """Watches a simulation and says why each job waited."""

    def __init__(self) -> None:
        self._records: dict[int, WaitRecord] = {}
        self._open: dict[int, WaitSpell] = {}
        self._pools: dict[str, PoolClocks] = {}

    def queued(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """Start the clock of a spell of waiting."""
        record = self._records.get(job.index)
        if record is None:
            record = self._records[job.index] = WaitRecord()
        mine = self._pool(pool)
        home = pool.name in (job.home, cpu_pool(job.home))
        if not record.waits or (home and not record.at_home):
            if job.queue_entry is not None:  # else it waits beside the queue, for its pool to grow
                record.jobs_ahead, record.gpus_ahead = mine.order.before(job.queue_entry)
            record.free_gpus = pool.free.total
            record.at_home = home
        record.waits += 1
        if job.queue_entry is not None:
            mine.order.add(job.queue_entry, job.gpus)
        if not home:
            self._open[job.index] = WaitSpell(now_s, None, job.queue_entry)
            return
        mine.catch_up(now_s, pool.free)
        kind = (job.gpus, job.nodes)
        demand = mine.demands.get(kind)
        if demand is None:
            demand = mine.demands[kind] = DemandClock()
        if not demand.waiting:
            demand.cause, demand.since_s = GPUS, now_s  # until the next look, at this very moment
        demand.waiting += 1
        wait = self._open[job.index] = WaitSpell(now_s, demand, job.queue_entry)
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
        given, taken = exchanged(before, job.placement or NOWHERE)
        if mine.stale_s is not None and mine.stale_s < now_s:
            free = pool.free.copy()
            free.give(taken)
            free.take(tuple((node, gpus) for node, gpus in given if free.is_present(node)))
            mine.catch_up(now_s, free)
        if given:
            mine.stops.append((job.job.job_id, "resized", frozenset(node for node, _ in given)))
        mine.stale_s = now_s

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """Remember the job that freed its GPUs; a job that was cancelled while it waited waits no more."""
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

    def _pool(self, pool: NodePool) -> PoolClocks:
        mine = self._pools.get(pool.name)
        if mine is None:
            mine = self._pools[pool.name] = PoolClocks()
        return mine

    def _account(self, now_s: float, record: WaitRecord, wait: WaitSpell) -> None:
        """Add what the clocks say since the wait's base to the record, and set the base anew."""
        if wait.demand is None or wait.since_s == now_s:
            return
        now = wait.demand.read(now_s)
        spans = [after - before for after, before in zip(now, wait.base, strict=True)]
        if wait.undecided:
            # No job came first in a decision that has not been made.
            spans[ROUND] += spans[TURN]
            spans[TURN] = 0.0
        wait.for_round_s += spans[ROUND]
        for cause, span_s in enumerate(spans):
            record.causes[cause] += span_s
        wait.base = now

    def _close(self, now_s: float, job: JobView, mine: PoolClocks) -> float:
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
            record.causes[TURN] -= wait.held_s
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
        `released_by`, the job that ended (`released_reason`: why) and so let it start after its last wait.
        """
        jobs = result.jobs
        first = result.warm_up_jobs
        records = [self._records.get(first + row) or WaitRecord() for row in range(len(jobs))]
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
                        "withdrawn",
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
    """Return the mean of each cause over the jobs of a table of waits (s): they add up to the mean delay.

    Jobs that were withdrawn do not count, as in every figure.
    """
    waits = waits[~waits["withdrawn"]]
    return {column: float(waits[column].mean()) if len(waits) else 0.0 for column in CAUSE_COLUMNS.values()}


def _released_by(
    job: JobView, stops: Iterable[tuple[str, Freed, frozenset[int]]]
) -> tuple[str | None, Freed | None]:
    """Choose, of the runs that ended since the last decision, the last that freed a node of the job's own;
    failing that the last of all: it let a job ahead start.
    """
    nodes = {node for node, _ in job.placement or ()}
    last: tuple[str | None, Freed | None] = (None, None)
    own = False
    for job_id, reason, freed in stops:
        on_own = not nodes.isdisjoint(freed)
        if on_own or not own:
            last, own = (job_id, reason), on_own
    return last


def _overtaken(jobs: pd.DataFrame, records: list[WaitRecord]) -> list[int]:
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
