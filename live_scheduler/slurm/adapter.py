"""Slurm as the live scheduler sees it: `SlurmAdapter`, on the cluster that SLURM_CONF and PATH name.

Everything goes through Slurm's own programs, as the unix user that this process runs as. An account with
adminlevel=Operator may do all that is asked here; without it what is refused is refused in Slurm's words.
"""

import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from foundation.errors import BadInputError
from live_scheduler.adapter import Change, PriorityRange, Refusal, WriteBack
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob, LiveNode
from live_scheduler.slurm import backfill, ended_jobs
from live_scheduler.slurm.asked_memory import as_asked_for
from live_scheduler.slurm.commands import call
from live_scheduler.slurm.control import PRIORITIES, Control
from live_scheduler.slurm.ended_jobs import NoAccountingError
from live_scheduler.slurm.inquiry import Inquiry
from live_scheduler.slurm.node_reading import read_nodes
from live_scheduler.slurm.own_priorities import OwnPriorities
from live_scheduler.slurm.placement import Placements
from live_scheduler.slurm.queue_reading import QueueReader, QueueRow
from live_scheduler.slurm.slurm_memory import SlurmMemory
from live_scheduler.slurm.stale_reasons import as_of_now

logger = logging.getLogger("lucid.live")

READ_LIMIT_S = 20.0
ACCOUNTING_LIMIT_S = 60.0
# So long a reading waits for slurmdbd, and so long a late answer is of use.
_PATIENCE_S, _KEEP_ANSWER_S = 2.0, 240.0


class SlurmAdapter:
    """One Slurm cluster (`live_scheduler.adapter.ClusterAdapter`). Not for several threads at once."""

    name = "slurm"
    priorities: PriorityRange = PRIORITIES

    def __init__(self, *, profiling_partition: str = "", memory: SlurmMemory | None = None) -> None:
        """Nothing is asked yet; `memory`: what is known of earlier writing on jobs (None: nothing)."""
        self._memory = memory or SlurmMemory()
        self._queue = QueueReader(self._memory)
        self._own_priorities = OwnPriorities()
        self._control = Control(profiling_partition, memory=self._memory)
        self._placements = Placements()
        self._rows: dict[str, QueueRow] = {}
        self._partitions: frozenset[str] = frozenset()
        self._least_mib: Mapping[str, float] = {}
        self._kinds_told: set[str] = set()
        self._became = Inquiry[list[EndedJob]](_PATIENCE_S, _KEEP_ANSWER_S)
        self._since = Inquiry[list[EndedJob]](_PATIENCE_S, _KEEP_ANSWER_S)

    def read(self) -> ClusterState:
        """Return the cluster as it is now."""
        at_s = cluster_now_s(READ_LIMIT_S)
        self._memory.overwritten.refresh()
        nodes = read_nodes(READ_LIMIT_S)
        self._partitions, self._least_mib = nodes.partitions, nodes.least_memory_mib
        rows = self._placements.place(self._queue.read(nodes.kinds, READ_LIMIT_S), READ_LIMIT_S)
        there = {node.name for node in nodes.nodes if node.available}
        rows = [self._as_it_ran(as_of_now(row, at_s, there)) for row in rows]
        self._rows = {row.job.job_id: row for row in rows}
        self._own_priorities.follow([row.job for row in rows])
        self._tell_of_shares(rows)
        if rows:  # a slurmctld that lost its jobs may get them back
            records = (each for row in rows for each in (row.raw_id, row.job.job_id.partition("_")[0]))
            with suppress(OSError):  # the file is long, and otherwise as good
                self._memory.overwritten.keep(set(records))
        # A run that let others start cannot be taken back.
        awaited = {job_id for row in rows for job_id in row.waited_for}
        jobs = tuple(
            replace(row.job, requeueable=False) if row.job.job_id in awaited else row.job for row in rows
        )
        jobs = tuple(as_asked_for(job, self._least_mib) for job in jobs)
        return ClusterState(at_s, jobs, _with_jobs(nodes.nodes, jobs), nodes.closed, nodes.longest_run_s)

    def _tell_of_shares(self, rows: Sequence[QueueRow]) -> None:
        """Log how many jobs of each kind of share count as whole GPUs, once a kind."""
        counts = Counter(row.shared_by for row in rows if row.shared_by)
        if counts.keys() <= self._kinds_told:
            return
        self._kinds_told |= counts.keys()
        told = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
        logger.info("%d jobs share GPUs and are counted as whole ones: %s", counts.total(), told)

    def _as_it_ran(self, row: QueueRow) -> QueueRow:
        """Return the row of a run that is ending with the start that it had.

        Of a job that is requeued, Slurm says that it starts this second, until its run is cleared up.
        """
        before = self._rows.get(row.job.job_id) if row.ending else None
        if before is None or before.job.start_time_s is None:
            return row
        return replace(row, job=replace(row.job, start_time_s=before.job.start_time_s))

    def ended(self, job_ids: Collection[str], since_s: float) -> list[EndedJob]:
        """Return what became of jobs that wait and run no longer.

        Of some of them only, when accounting was slow: it then answers what was asked before.
        """
        if not job_ids:
            return []
        asked, partitions = sorted(job_ids), self._partitions
        try:
            answer = self._became.ask(
                lambda: ended_jobs.accounted(
                    asked, since_s, self._memory.marks, partitions, ACCOUNTING_LIMIT_S
                )
            )
            return [self._as_asked_for(each) for each in answer if each.job.job_id in job_ids]
        except NoAccountingError:
            ended = {each.job.job_id: each for each in self._remembered()}
            tasks = [each.job for each in ended.values()] + [row.job for row in self._rows.values()]
            for task in tasks:
                array_id, underscore, _ = task.job_id.partition("_")
                if underscore and array_id not in ended and array_id not in self._rows:
                    ended[array_id] = ended_jobs.dissolved(array_id, task, since_s)
            return [ended[job_id] for job_id in job_ids if job_id in ended]

    def ended_since(self, since_s: float) -> list[EndedJob]:
        """Return all jobs that ended at or after `since_s`, in the order of their ends.

        When accounting was slow, those of the last four minutes may be missing: ask for them again.
        """
        try:
            now_s, partitions = cluster_now_s(READ_LIMIT_S), self._partitions
            answer = self._since.ask(
                lambda: ended_jobs.accounted_since(
                    since_s, now_s, self._memory.marks, partitions, ACCOUNTING_LIMIT_S
                )
            )
            return [self._as_asked_for(each) for each in answer if each.end_time_s >= since_s]
        except NoAccountingError:
            return [each for each in self._remembered() if each.end_time_s >= since_s]

    def _as_asked_for(self, ended: EndedJob) -> EndedJob:
        return replace(ended, job=as_asked_for(ended.job, self._least_mib))

    def _remembered(self) -> list[EndedJob]:
        """Return what slurmctld remembers, in the order of the ends."""
        remembered = ended_jobs.remembered(self._memory.marks, READ_LIMIT_S)
        return sorted(remembered, key=lambda each: each.end_time_s)

    def apply(self, changes: Sequence[Change]) -> list[Refusal]:
        """Make the changes in their order; return those that Slurm refused."""
        if not changes:
            return []
        if not self._rows:
            self.read()
        return self._control.apply(changes, self._rows)

    def own_priorities(self, jobs: Sequence[LiveJob]) -> Mapping[str, bool]:
        """Return whether Slurm itself gave jobs of the last reading their priorities, as far as it tells."""
        raw_ids = {row.raw_id: job.job_id for job in jobs if (row := self._rows.get(job.job_id)) is not None}
        return self._own_priorities.of(jobs, raw_ids, READ_LIMIT_S)

    def write_backs(self) -> WriteBack | None:
        """Return how Slurm's backfill may undo a priority that was set."""
        config = call(["scontrol", "show", "config"], limit_s=READ_LIMIT_S)
        try:
            diagnostics = call(["sdiag"], limit_s=READ_LIMIT_S)
        except BadInputError:  # not visible to this user
            diagnostics = ""
        return backfill.write_backs(config, diagnostics)


def cluster_now_s(limit_s: float) -> float:
    """Return the time (Unix s) on slurmctld's machine: ours, moved as little as sdiag's whole seconds ask."""
    try:
        text = call(["sdiag"], limit_s=limit_s)
    except BadInputError:  # not visible to this user
        return time.time()
    now_s = time.time()
    _, _, rest = text.partition("sdiag output at")
    digits = rest.partition("(")[2].partition(")")[0]
    if not digits.isdigit():
        return now_s
    return min(max(now_s, float(digits)), float(digits) + 1.0)


def _with_jobs(nodes: Sequence[LiveNode], jobs: Sequence[LiveJob]) -> tuple[LiveNode, ...]:
    """Count what jobs hold that have started since the nodes were read."""
    held: dict[str, int] = {}
    for job in jobs:
        if not job.shares_gpus:
            for node, gpus in job.gpus_on:
                held[node] = held.get(node, 0) + gpus
    return tuple(
        replace(node, gpus_used=min(node.gpus, max(node.gpus_used, held.get(node.name, 0)))) for node in nodes
    )
