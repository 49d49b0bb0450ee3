"""The profiling stage on Slurm: new small jobs run for a moment where they are measured, then queue at home.

The policy chooses the jobs (Lucid section 3.2; `simulator.stages.profiler`); on Slurm that means:

- A waiting job that the policy starts on the profiler is moved to the profiling partition (`MoveTo`).
- It runs there for at most the policy's limit. One that ends within it is done; else its run is stopped, and
  it queues at home (`SendHome`), from its beginning.
- A job that is never started there moves home unchanged (`MoveTo` its home).

No job is put on hold: a requeued job waits for a begin time, so it runs even without a daemon. Where a job
belongs stands in its mark and in an intent on disk (`Intents`); either is enough for the next process
(a new daemon, the dead man's switch, the restore command) to finish what was begun.

What this relies on is tried out in `parts/live_profiling/tests/slurm/test_slurm_profiling_stage.py`; why a
begin time and no hold: docs/decisions/0021.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from math import inf
from typing import Any

from live_scheduler.adapter import Change, MoveTo, SendHome, StartAfter
from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.deciding.decision import Decision
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.memory.records import LastLines
from live_scheduler.slurm.control import START_DELAY_S
from simulator.stages.profiler import ProfilerSettings

logger = logging.getLogger("lucid.live")
INTENTS_FILE = "intents.jsonl"
# A job that has waited there for so long does not fit there (cores, memory, features, access).
PATIENCE_S = 120.0
# A move that did not happen so often is refused by Slurm, and not put off by a rate limit.
MOST_TRIES = 3
# A run that went on so long past its limit has more work in it than a profile is worth: it stays.
OVERRUN_S = 600.0
# Processes that are told to end, and an epilog, take at most so long.
CLEAR_UP_S = 300.0
# Slurm makes a requeued job wait for the life of a job credential (AuthInfo=cred_expire, 120 s by default).
LONGEST_SLURM_DELAY_S = 1_200.0


class Step(StrEnum):
    """What is to become of a job."""

    ENTER = "enter"  # it is to run on the profiling partition for a moment
    LEAVE = "leave"  # it is to go home


@dataclass(frozen=True, slots=True)
class Intent:
    """A job that was to be moved at `at_s` (Unix seconds).

    `home` is the partition where it belongs, `limit_s` how long it may run on the profiling partition,
    `restarts` how often it had been requeued before.
    """

    job_id: str
    home: str
    step: Step
    at_s: float
    limit_s: float
    restarts: int


class Intents(LastLines[Intent]):
    """The open intents by job: STATE/intents.jsonl.

        {"job_id": "17", "home": "vc2", "step": "enter", "at_s": 1700000000.0, "limit_s": 200, "restarts": 0}
        {"job_id": "17", "settled": true}

    Slurm's own word on a job always stands above this file: an intent that was not acted on is dropped when
    the job is seen where it was. What the file adds is what Slurm may not know any more: where a job belongs
    when its mark was overwritten, for how long it was to run, and that a begin time is Slurm's and not its
    user's. On the disk before `note` returns.
    """

    file_name = INTENTS_FILE
    durable = True
    most_stale_lines = 2_000

    def note(self, intents: Iterable[Intent]) -> None:
        """Write intents down for good, in place of older ones of the same jobs. Raises OSError."""
        self.write({intent.job_id: intent for intent in intents})

    def to_fields(self, key: str, value: Intent | None) -> Mapping[str, object]:
        """Return a line as the module shows them."""
        return {"job_id": key, "settled": True} if value is None else asdict(value)

    def from_fields(self, fields: Mapping[str, Any]) -> tuple[str, Intent | None]:
        """Read such a line."""
        job_id = str(fields["job_id"])
        if fields.get("settled"):
            return job_id, None
        intent = Intent(
            job_id,
            str(fields["home"]),
            Step(fields["step"]),
            float(fields["at_s"]),
            float(fields["limit_s"]),
            int(fields["restarts"]),
        )
        if not (intent.home and math.isfinite(intent.at_s) and 0 <= intent.limit_s < math.inf):
            raise ValueError("no intent that can be acted on")
        return job_id, intent


@dataclass(frozen=True, slots=True)
class Guest:
    """A job on the profiling partition that belongs elsewhere; it has run, or waited, for `age_s`."""

    job: LiveJob
    home: str
    limit_s: float
    ran_before: bool
    age_s: float


class ProfilingStage:
    """A stage of the daemon; in the mode `control` it writes down what it is about to ask for."""

    def __init__(
        self,
        settings: LiveSettings,
        intents: Intents,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`monotonic` is unaffected by changes of the time of day."""
        self.partition = settings.profiling_partition
        self.intents = intents
        self.left_alone: dict[str, str] = {}  # guest -> why it is not sent home
        self._records = settings.mode is Mode.CONTROL
        self._monotonic = monotonic
        self._misfits: set[str] = set()  # Slurm refused to move them, or they waited there in vain
        self._asked: Counter[str] = Counter()  # how often this process asked to move a job in
        self._seen: dict[tuple[str, float | None], tuple[float, float]] = {}  # run -> age then, and then
        self._limit_s = ProfilerSettings().profiling_limit_s  # until a decision says the policy's

    def takes(self, job: LiveJob, cluster: ClusterState) -> bool:
        """Whether a job may be profiled."""
        return not self.why_not(job, cluster)

    def limit_s(self, job_id: str) -> float | None:
        """For how long a job that runs on the profiling partition may do so; None: as the policy says."""
        intent = self.intents.values.get(job_id)
        return None if intent is None else intent.limit_s

    def why_not(self, job: LiveJob, cluster: ClusterState) -> str:
        """Return why a job may not be profiled; empty: it may."""
        if self.partition not in cluster.partitions or self.partition in cluster.closed_partitions:
            return f"the profiling partition {self.partition!r} is closed"
        if not job.requeueable or job.tasks != 1 or not job.job_id.isdigit():
            return "it may not be requeued"
        if job.shares_gpus or job.pinned_to:
            return "it asks for a share of a GPU, or for certain nodes"
        longest_s = cluster.longest_run_s.get(self.partition)
        if longest_s is not None and (job.time_limit_s is None or job.time_limit_s > longest_s):
            # Slurm would never start it there, or end it there at a limit that is not its own.
            return f"the profiling partition lets jobs run for {longest_s:g} s only"
        if job.restarts:
            return "it has run before"
        if job.job_id in self._misfits:
            return "it does not fit on the profiling partition"
        return ""

    def changes(self, decision: Decision, cluster: ClusterState) -> list[Change]:
        """Return the moves home and the moves in, after recording the latter.

        When they cannot be recorded no job is moved in; moves home are always made.
        """
        if decision.profiling_limit_s < inf:
            self._limit_s = decision.profiling_limit_s
        changes = [*self.reconcile(cluster), *self._cut_short(decision, cluster)]
        entering = self._entering(decision, cluster)
        if not self._records:
            return [*changes, *entering.values()]
        try:
            self.intents.note(
                Intent(job_id, change.home, Step.ENTER, cluster.at_s, limit_s, cluster.by_id[job_id].restarts)
                for (job_id, limit_s), change in entering.items()
            )
        except OSError:
            return changes
        self._asked.update(job_id for job_id, _ in entering)
        return [*changes, *entering.values()]

    def reconcile(self, cluster: ClusterState) -> list[Change]:
        """Return the changes due under any policy: finish begun moves, end runs that are over."""
        logged, self.left_alone = self.left_alone, {}
        changes = self._settle(cluster)
        for guest in self._guests(cluster):
            if guest.home not in cluster.partitions:
                self.left_alone[guest.job.job_id] = f"its home partition {guest.home!r} is not there"
            elif guest.job.waiting:
                changes += self._not_started(guest, cluster)
            elif guest.age_s >= guest.limit_s:
                changes += self._over(guest, cluster)
        for job_id in sorted(self.left_alone.keys() - logged):
            logger.info("job %s stays in %s: %s", job_id, self.partition, self.left_alone[job_id])
        return changes

    def all_home(self, cluster: ClusterState) -> list[Change]:
        """Return the changes that bring every job home that can be, whatever is left of its time."""
        changes = self._settle(cluster)
        for guest in self._guests(cluster):
            if guest.home not in cluster.partitions:
                continue
            if guest.job.waiting:
                changes.append(self._moved_home(guest, cluster))
            else:
                changes += self._over(guest, cluster)
        return changes

    # Changes

    def _settle(self, cluster: ClusterState) -> list[Change]:
        """Close the intents of jobs that are home; shorten the wait that Slurm gave some of them there."""
        changes: list[Change] = []
        settled = []
        for job_id, intent in self.intents.values.items():
            job = cluster.by_id.get(job_id)
            if job is None:
                settled.append(job_id)
            elif job.partition == self.partition:
                continue
            elif _is_delayed(job, intent, cluster.at_s):
                changes.append(StartAfter(job_id, START_DELAY_S))
            elif intent.step is Step.ENTER or not _clears_up(job, intent, cluster.at_s):
                settled.append(job_id)
                if intent.step is Step.ENTER and self._asked[job_id] >= MOST_TRIES:
                    self._misfits.add(job_id)
        self._misfits &= cluster.by_id.keys()
        self._asked = Counter({job_id: n for job_id, n in self._asked.items() if job_id in cluster.by_id})
        if self._records and settled:
            with suppress(OSError):  # it stays open, and is settled another time
                self.intents.cross_off(settled)
        return changes

    def _cut_short(self, decision: Decision, cluster: ClusterState) -> list[Change]:
        """Send home the jobs that the policy wants back before their time is over."""
        changes: list[Change] = []
        leaving = set(decision.sends_home)
        for guest in self._guests(cluster) if leaving else ():
            if (
                guest.job.job_id in leaving
                and not guest.job.waiting
                and guest.age_s < guest.limit_s
                and guest.home in cluster.partitions
            ):
                changes += self._over(guest, cluster)
        return changes

    def _entering(self, decision: Decision, cluster: ClusterState) -> dict[tuple[str, float], MoveTo]:
        """Return the moves to the profiler by job and limit (s): what the policy starts, while room lasts."""
        room = sum(
            node.gpus - node.gpus_used
            for node in cluster.nodes
            if node.available and self.partition in node.partitions
        ) - sum(job.gpus for job in cluster.jobs if job.waiting and job.partition == self.partition)
        entering: dict[tuple[str, float], MoveTo] = {}
        for place in decision.ranked:
            if place.pool != self.partition or not place.starts_now or place.limit_s is None:
                continue
            job = cluster.by_id.get(place.job_id)
            if job is None or not job.eligible or job.partition == self.partition or job.gpus > room:
                continue
            if not self.why_not(job, cluster):
                room -= job.gpus
                entering[job.job_id, place.limit_s] = MoveTo(job.job_id, self.partition, job.virtual_cluster)
        return entering

    # The guests

    def _guests(self, cluster: ClusterState) -> Iterable[Guest]:
        """Find the jobs on the profiling partition that belong elsewhere, by their mark or by an intent."""
        seen = {}
        for job in cluster.jobs:
            if job.partition != self.partition:
                continue
            intent = self.intents.values.get(job.job_id)
            if intent is None and not job.mark:
                continue
            home = job.virtual_cluster if intent is None else intent.home
            if home == self.partition:
                continue
            run = (job.job_id, job.start_time_s)
            since_s = job.start_time_s
            if since_s is None:
                since_s = intent.at_s if intent is not None else cluster.at_s
            now = self._monotonic()
            # A change of the time of day changes no age that is already watched.
            age_s, then = seen[run] = self._seen.get(run, (max(0.0, cluster.at_s - since_s), now))
            yield Guest(
                job,
                home,
                self._limit_s if intent is None else intent.limit_s,
                job.restarts > (intent.restarts if intent is not None else 0),
                age_s + now - then,
            )
        self._seen = seen

    def _not_started(self, guest: Guest, cluster: ClusterState) -> list[Change]:
        job = guest.job
        misfits = bool(job.waits_for) or guest.age_s >= PATIENCE_S
        closed = self.partition in cluster.closed_partitions
        if not (guest.ran_before or job.held or misfits or closed):
            return []
        if misfits:
            self._misfits.add(job.job_id)
        return [self._moved_home(guest, cluster)]

    def _moved_home(self, guest: Guest, cluster: ClusterState) -> MoveTo:
        self._note_leaving(guest, cluster)
        return MoveTo(guest.job.job_id, guest.home, guest.home)

    def _over(self, guest: Guest, cluster: ClusterState) -> list[Change]:
        job = guest.job
        if not job.requeueable:
            self.left_alone[job.job_id] = "it may not be requeued (any more)"
            return []
        if guest.age_s > guest.limit_s + OVERRUN_S:
            self.left_alone[job.job_id] = f"its run was not ended in time: {guest.age_s:.0f} s would be lost"
            return []
        self._note_leaving(guest, cluster)
        return [SendHome(job.job_id, guest.home)]

    def _note_leaving(self, guest: Guest, cluster: ClusterState) -> None:
        if not self._records:
            return
        restarts = guest.job.restarts - guest.ran_before
        intent = Intent(guest.job.job_id, guest.home, Step.LEAVE, cluster.at_s, guest.limit_s, restarts)
        with suppress(OSError):  # what is lost is a shorter wait at home
            self.intents.note([intent])


def _clears_up(job: LiveJob, intent: Intent, now_s: float) -> bool:
    """Whether a job that was sent home may still be ending its run there (COMPLETING looks like a run)."""
    return not job.waiting and now_s - intent.at_s < CLEAR_UP_S


def _is_delayed(job: LiveJob, intent: Intent, now_s: float) -> bool:
    """Whether a job at home waits for the begin time that Slurm gave it at the requeue, not its user."""
    begin_s = job.begin_time_s
    return (
        job.waiting
        and not job.held
        and job.restarts > intent.restarts
        and begin_s is not None
        and now_s + 2 * START_DELAY_S < begin_s <= now_s + LONGEST_SLURM_DELAY_S
    )
