"""Slurm as the live scheduler sees it: `SlurmAdapter`, on the cluster that SLURM_CONF and PATH name.

Everything goes through Slurm's own programs, as the unix user that this process runs as. An account with
adminlevel=Operator may do all that is asked here; without it what is refused is refused in Slurm's words.
"""

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from typing import Generic, TypeVar

from cluster_logs.host_lists import expand_hosts
from cluster_logs.slurm_words import is_memory_of_whole_nodes
from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.adapter import Change, PriorityRange, Refusal, WriteBack
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob, LiveNode
from live_scheduler.slurm import ended_jobs
from live_scheduler.slurm.commands import call, config_values
from live_scheduler.slurm.control import PRIORITIES, Control
from live_scheduler.slurm.ended_jobs import NoAccountingError
from live_scheduler.slurm.node_reading import read_nodes
from live_scheduler.slurm.own_priorities import OwnPriorities
from live_scheduler.slurm.placement import Placements
from live_scheduler.slurm.queue_reading import QueueReader, QueueRow
from live_scheduler.slurm.slurm_memory import SlurmMemory

logger = logging.getLogger("lucid.live")

READ_LIMIT_S = 20.0
ACCOUNTING_LIMIT_S = 60.0
# So long a reading waits for slurmdbd, and so long a late answer is of use.
_PATIENCE_S, _KEEP_ANSWER_S = 2.0, 240.0
_MEMORY_FACT = "requested_memory_mib"
_BEGIN_TIME = "BeginTime"
_AWAY = re.compile(r"UnavailableNodes:(\S+)")
# slurm.conf(5), SchedulerParameters.
_INTERVAL_S, _YIELD_SLEEP_US = 30, 500_000
_MENDED = (26, 5, 3)
# A cycle looks at the clock between two jobs, and whole seconds of it.
_SLACK_S = 2.0
_CYCLES = re.compile(r"Backfilling stats(?P<now>[^\n]*).*?Total cycles:\s*(?P<ended>\d+)", re.DOTALL)
_RUNNING = "in the middle of backfilling"

Answer = TypeVar("Answer")


class Inquiry(Generic[Answer]):
    """A kind of question to slurmdbd, which may hang where slurmctld goes on: no pass waits for the answer.

    One at a time, each in a thread of its own. Not for several threads at once.

    `patience_s`: how long `ask` waits for the answer. One that comes later is given to the next
    question, in the place of that one's answer, unless it was asked for more than `keep_s` before.
    """

    def __init__(
        self, patience_s: float, keep_s: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience_s, self._keep_s, self._clock = patience_s, keep_s, clock
        self._future: Future[Answer] | None = None
        self._asked_s = 0.0

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer, or that to an earlier question; raises what the question raises.

        Raises ServiceUnavailableError while a question has not been answered.
        """
        future = self._future
        answered = future is not None and future.done()
        if future is None or (answered and self._clock() - self._asked_s > self._keep_s):
            future = self._start(question)
            wait([future], self._patience_s)
            answered = future.done()
        if not answered:
            raise ServiceUnavailableError("slurmdbd has not answered yet.")
        self._future = None
        return future.result()

    def _start(self, question: Callable[[], Answer]) -> "Future[Answer]":
        future: Future[Answer] = Future()

        def find_out() -> None:
            try:
                future.set_result(question())
            except BaseException as error:
                future.set_exception(error)

        self._future, self._asked_s = future, self._clock()
        # Not an executor's: the process does not wait for it at its end.
        threading.Thread(target=find_out, name="slurmdbd", daemon=True).start()
        return future


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
        return write_backs(config, diagnostics)


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


def as_asked_for(job: LiveJob, least_mib: Mapping[str, float]) -> LiveJob:
    """Return the job without memory that it did not ask for: Slurm says a whole node's where none was asked.

    `least_mib` is the memory of the smallest node of each partition.
    """
    memory_mib = job.other_facts.get(_MEMORY_FACT)
    if memory_mib is None:
        return job
    if not is_memory_of_whole_nodes(float(memory_mib), job.nodes or 1, least_mib.get(job.partition)):
        return job
    return replace(
        job, other_facts={name: fact for name, fact in job.other_facts.items() if name != _MEMORY_FACT}
    )


def as_of_now(row: QueueRow, at_s: float, there: Collection[str]) -> QueueRow:
    """Return the row with what its job waits for at `at_s`; `there` are the nodes that start jobs.

    slurmctld writes a job's reason when it looks at the job, which may be much later than what happens to it:
    one that is to start in an hour has still its old reason, one that may start now still BeginTime,
    and one whose nodes are back is said to wait for them until it is its turn. A job that was left out for
    such a reason would not get its turn for a long time.
    """
    job = row.job
    if not job.waiting or job.held:
        return row
    waits_for = job.waits_for
    later = job.begin_time_s is not None and job.begin_time_s > at_s
    away = _AWAY.search(waits_for)
    nodes_back = away is not None and any(node in there for node in expand_hosts(away[1]))
    if later and not waits_for:
        waits_for = _BEGIN_TIME
    elif nodes_back or (waits_for == _BEGIN_TIME and not later):
        waits_for = ""
    return row if waits_for == job.waits_for else replace(row, job=replace(job, waits_for=waits_for))


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


def write_backs(config: str, diagnostics: str) -> WriteBack | None:
    """Return how Slurm's backfill undoes changes of priorities, and for how long; None: it does not.

    A backfill cycle reads all priorities when it begins, yields its locks every now and then so that others
    may change jobs, and writes the priority that it has read to each job when its turn comes. A change that
    was made meanwhile is undone. Most cycles notice a change and end; with `bf_continue` they go on, and
    without it a change in the same second as another is not noticed. Seen on 22.05.8
    (`tests/slurm/test_slurm_backfill.py`), mended in 26.05.3.

    `config` is the output of `scontrol show config`, `diagnostics` that of `sdiag`; where it is empty the
    cycles that have ended are not known.
    """
    settings = config_values(config)
    version = tuple(map(int, re.findall(r"\d+", settings.get("SLURM_VERSION", ""))[:3]))
    if settings.get("SchedulerType", "sched/backfill") != "sched/backfill" or version >= _MENDED:
        return None
    words = settings.get("SchedulerParameters", "").split(",")
    given = {name.strip(): value for name, _, value in (word.partition("=") for word in words)}
    interval_s = _number(given, "bf_interval", _INTERVAL_S)
    if interval_s <= 0:
        return None  # it is switched off
    longest_s = _number(given, "bf_max_time", interval_s) or interval_s
    yield_s = _number(given, "bf_yield_sleep", _YIELD_SLEEP_US) / 1e6
    counted = _CYCLES.search(diagnostics)
    return WriteBack(
        interval_s,
        longest_s + yield_s + _SLACK_S,
        "Slurm's backfill writes back the priorities that its cycle began with"
        f" ({'bf_continue, ' if 'bf_continue' in given else ''}a cycle each {interval_s:g} s)",
        cycles=None if counted is None else int(counted["ended"]),
        running=None if counted is None else _RUNNING in counted["now"],
    )


def _number(given: dict[str, str], name: str, otherwise: float) -> float:
    try:
        return float(given[name])
    except (KeyError, ValueError):
        return otherwise
