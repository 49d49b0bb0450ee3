"""Horus (Yeung et al., TPDS '21): share GPUs where predicted utilisation says that it does not hurt.

GPU utilisation is predicted before a job runs (`job.profile`: a prediction, or a measurement of its kind).
Jobs wait in queues by predicted utilisation: a job of little utilisation shares GPUs easily, one of much does
not, so jobs of a class compete for the same room, and each class waits in a queue of its own, first come,
first served. The job that comes next goes where it costs least, of all GPU sets with enough memory: the
share of GPU memory in use, plus the slowdown that summed utilisation causes, which grows with its square
above 100 %.

A prediction may be wrong. When a pair turns out to need more memory than there is, the job that outgrew its
prediction fails; it is submitted again, asks for all of a GPU's memory from then on, and runs alone.

Narrower than the paper: a set of GPUs is shared by two jobs at most, of equal GPU demand.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from foundation.checked_settings import Between, CheckedSettings
from simulator.actions import Action, Colocate, Preempt, Start
from simulator.job_view import JobView, RunState
from simulator.mechanisms.gpu_sharers import GpuSharers
from simulator.policy import Policy
from simulator.snapshot import NodePool, Snapshot

COMPACT_AFTER = 64  # served jobs in front of a queue, before they are cleared away


class UtilisationQueue:
    """One class, in the order of submission."""

    __slots__ = ("_entries", "_served", "overtaken", "passed_over")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, JobView]] = []
        self._served = 0
        self.passed_over = 0  # jobs of other queues that have started since one of this did
        self.overtaken = 0  # jobs of any queue that have started since its first came to the front

    def __len__(self) -> int:
        return len(self._entries) - self._served

    def add(self, job: JobView) -> None:
        """Insert a job; one that queues again takes its old place."""
        insort(self._entries, (job.submit_time_s, job.index, job), lo=self._served)

    def first(self, count: int) -> list[JobView]:
        """Return up to `count` jobs from the front."""
        return [job for _, _, job in self._entries[self._served : self._served + count]]

    def remove(self, job: JobView) -> None:
        """Take a job out."""
        at = bisect_left(self._entries, (job.submit_time_s, job.index), lo=self._served)
        if at == self._served:
            self._served += 1
            if self._served > COMPACT_AFTER and 2 * self._served > len(self._entries):
                del self._entries[: self._served]
                self._served = 0
        else:
            del self._entries[at]

    def keep_waiting(self, pool: NodePool) -> None:
        """Drop the jobs that do not wait in the pool any more."""
        self._entries = [
            entry
            for entry in self._entries[self._served :]
            if entry[2].state is RunState.PENDING and entry[2].pool == pool.name
        ]
        self._served = 0

    def median_wait_s(self, now_s: float) -> float:
        """Return the median of how long its jobs have waited since their submission."""
        served = self._served
        return now_s - self._entries[served + (len(self._entries) - served) // 2][0]


class UtilisationQueues:
    """The classes of a pool: equal intervals of predicted utilisation, the lowest first."""

    def __init__(self, classes: int) -> None:
        self._queues = [UtilisationQueue() for _ in range(classes)]
        self._class_of: dict[JobView, UtilisationQueue] = {}

    def follow(self, pool: NodePool) -> list[JobView]:
        """Catch up with the pool's queue; return the jobs that have come."""
        came = [
            job
            for job in pool.queue.take_newcomers()
            if job.state is RunState.PENDING and job.pool == pool.name
        ]
        for job in came:
            self._add(job)
        if len(self._class_of) != len(pool.queue):
            for queue in self._queues:
                queue.keep_waiting(pool)
            self._class_of = {job: queue for queue in self._queues for job in queue.first(len(queue))}
            for job in pool.queue:
                self._add(job)
        return came

    def __getitem__(self, job: JobView) -> UtilisationQueue:
        """Return the queue that a waiting job is in."""
        return self._class_of[job]

    def _add(self, job: JobView) -> None:
        if job not in self._class_of:
            utilisation_pct = 100.0 if job.profile is None else job.profile.gpu_util_pct
            last = len(self._queues) - 1
            queue = self._queues[min(last, max(0, int(utilisation_pct / 100.0 * (last + 1))))]
            self._class_of[job] = queue
            queue.add(job)

    def in_turn(self, now_s: float, left_out: set[UtilisationQueue]) -> UtilisationQueue | None:
        """Return the queue that is due, of those with jobs and not left out.

        Due is the largest product of three factors: its length and its median wait, each as a share of the
        longest (which is the same for all and left away), and how often it was passed over since it was last
        served. The first two share the cluster in proportion to what waits, the third sees to it that no
        queue, however short, is passed over for ever.
        """
        due = None
        most = 0.0
        for queue in self._queues:
            if queue not in left_out and (length := len(queue)):
                # One second more than it is, so that a queue of jobs that have just come counts too.
                wait_s = 1.0 + queue.median_wait_s(now_s)
                urgency = length * wait_s * (1 + queue.passed_over)
                if urgency > most:
                    due, most = queue, urgency
        return due

    def overdue(self, patience: int) -> list[JobView]:
        """Return the first job of each queue in which it was overtaken more than `patience` times."""
        return [queue.first(1)[0] for queue in self._queues if len(queue) and queue.overtaken > patience]

    def serve(self, job: JobView) -> None:
        """Take out a job that starts; the others have been passed over once more."""
        served = self._class_of.pop(job)
        was_first = served.first(1)[0] is job
        served.remove(job)
        for queue in self._queues:
            if len(queue):
                queue.passed_over += 1
                queue.overtaken += 1
        served.passed_over = 0
        if was_first:
            served.overtaken = 0


@dataclass(frozen=True)
class HorusSettings(CheckedSettings):
    """Settings of Horus.

    - `queues`: classes of predicted utilisation.
    - `buffer`: of a queue in its turn so many jobs are tried, from its front, before it is given up.
    - `patience`: the first job of a queue may be overtaken so often; from then on nodes are kept for it.
    - `gpu_memory_mib`: memory of a GPU.
    - `memory_weight`, `slowdown_weight`: of the two parts of the cost; equal in the paper.
    """

    queues: Annotated[int, Between(1)] = 3
    buffer: Annotated[int, Between(1)] = 20
    patience: int = 1_000
    gpu_memory_mib: float = 24_576.0
    memory_weight: float = 1.0
    slowdown_weight: float = 1.0


def slowdown(utilisation_pct: float) -> float:
    """By how much jobs that want so much of a GPU together run longer (0: as alone).

    Nothing up to 100 %; above, what sharing in proportion costs and its square on top. The paper measures a
    quadratic and does not give its coefficients for general use.
    """
    excess = utilisation_pct / 100.0 - 1.0
    return excess + excess * excess if excess > 0 else 0.0


class Room:
    """Where jobs can go at one moment: the idle GPUs, and those of jobs without a partner."""

    def __init__(
        self,
        pool: NodePool,
        sharers: GpuSharers,
        memory_mib_of: Callable[[JobView], float | None],
        settings: HorusSettings,
    ) -> None:
        self._plan = pool.plan()
        self._sharers = sharers
        self._memory_mib_of = memory_mib_of
        self._settings = settings
        self._full: set[int] = set()  # GPU demands that found no idle GPUs
        self._too_much: dict[int, float] = {}  # GPU demand -> memory for which there is no partner
        self._held: set[int] = set()  # nodes on which nothing new starts

    def place(self, job: JobView) -> Action | None:
        """Find the cheapest place for a job and take it; None when there is none.

        Idle GPUs come first: on them a job costs its own memory and, wanting at most 100 %, no slowdown.
        """
        gpus = job.gpus
        if gpus not in self._full:
            placement = self._plan.place(gpus)
            if placement is not None:
                self._sharers.begin(job)
                return Start(job, placement)
            self._full.add(gpus)
        memory_mib = self._memory_mib_of(job)
        if memory_mib is None or memory_mib >= self._too_much.get(gpus, float("inf")):
            return None
        partner = self._cheapest_partner(job, memory_mib)
        if partner is None:
            # Without idle GPUs for this demand there are no more partners to come, either.
            self._too_much[gpus] = memory_mib
            return None
        self._sharers.join(job, partner)
        return Colocate(job, partner)

    def _cheapest_partner(self, job: JobView, memory_mib: float) -> JobView | None:
        settings = self._settings
        utilisation_pct = 100.0 if job.profile is None else job.profile.gpu_util_pct
        room_mib = settings.gpu_memory_mib - memory_mib
        best: JobView | None = None
        least = float("inf")
        for theirs_mib, _, partner in self._sharers.single(job.gpus):
            if theirs_mib > room_mib:
                break
            if self._held and any(node in self._held for node, _ in partner.placement or ()):
                continue
            if partner.unstable and (self._memory_mib_of(partner) or 0.0) > room_mib:
                continue
            theirs_pct = 100.0 if partner.profile is None else partner.profile.gpu_util_pct
            memory = (memory_mib + theirs_mib) / settings.gpu_memory_mib
            stretch = slowdown(utilisation_pct + theirs_pct)
            cost = settings.memory_weight * memory + settings.slowdown_weight * stretch
            if cost < least:
                best, least = partner, cost
        return best

    @property
    def holds(self) -> bool:
        """Whether nodes are kept for a job."""
        return bool(self._held)

    def hold(self, job: JobView) -> None:
        """Keep the emptiest nodes free for a job until it fits: nothing new starts on them."""
        plan = self._plan
        size = plan.gpus_per_node
        present = [node for node in range(plan.nodes) if plan.is_present(node) and node not in self._held]
        present.sort(key=lambda node: -plan.on_node(node))
        for node in present[: -(-job.gpus // size)]:
            self._held.add(node)
            if plan.on_node(node):
                plan.take(((node, plan.on_node(node)),))


class Horus(Policy):
    """Queues by predicted utilisation take turns; the cheapest GPU set, shared or not; no preemption."""

    Settings = HorusSettings
    at_events_only = True  # its queues take turns whenever it is asked

    def __init__(self, settings: HorusSettings | None = None) -> None:
        self.settings = settings or HorusSettings()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget queues, partners and failures."""
        self._queues: dict[str, UtilisationQueues] = {}
        self._sharers: dict[str, GpuSharers] = {}
        self._gained: dict[str, tuple[int, int]] = {}  # at the last decision that served the queues
        self._failed: set[JobView] = set()  # out of memory, once: they ask for all of it now

    def history(self) -> tuple[Any, ...]:
        """Return the queue to serve next, the jobs that share, and those that ran out of memory."""
        return self._queues, self._sharers, self._gained, self._failed

    def resume(self, pools: Mapping[str, NodePool], history: tuple[Any, ...] | None) -> None:
        """Go on with it."""
        if history is not None:
            self._queues, self._sharers, self._gained, self._failed = history
            for sharers in self._sharers.values():
                sharers.memory_mib_of = self._memory_mib

    def priority(self, job: JobView) -> float:
        """Order by submission; which queue is served next is decided when there is room."""
        return job.submit_time_s

    def observe_end(self, job: JobView, now_s: float) -> None:
        """A partner of a completed job runs on alone."""
        if job.pool in self._sharers:
            self._sharers[job.pool].end(job)

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Stop jobs that ran out of memory; then serve the queues of each changed pool in turn."""
        return [action for pool in snapshot.changed for action in self._decide(pool, snapshot.now_s)]

    def _decide(self, pool: NodePool, now_s: float) -> list[Action]:
        if pool.name not in self._queues:
            self._queues[pool.name] = UtilisationQueues(self.settings.queues)
            self._sharers[pool.name] = GpuSharers(self._memory_mib)
        queues, sharers = self._queues[pool.name], self._sharers[pool.name]
        sharers.follow(pool)
        came = queues.follow(pool)
        gained = (pool.free.gains, sharers.gains)
        nothing_freed = self._gained.get(pool.name) == gained
        if nothing_freed and not came:
            sharers.look_again(pool)  # then it is the needs of a running job that have changed
        failed = self._out_of_memory(sharers)
        if failed:
            # They queue again at this very moment, and the policy is asked once more.
            return [Preempt(job, keeps_progress=False) for job in failed]
        if not len(pool.queue):
            return []
        out_of_reach = self.settings.buffer + len(came)  # so many jobs, and those that came are not tried yet
        if nothing_freed and came and all(len(queues[job]) >= out_of_reach for job in came):
            return []  # and jobs that were tried before find no place now, either
        room = Room(pool, sharers, self._memory_mib, self.settings)
        actions = self._serve(room, queues, now_s)
        if actions and room.holds:
            self._gained.pop(pool.name, None)  # others may be the emptiest nodes now: look again
        else:
            self._gained[pool.name] = (pool.free.gains, sharers.gains)
        return actions

    def _memory_mib(self, job: JobView) -> float | None:
        """Return the memory that a job asks for; None: all of it, so it runs alone."""
        return None if job.profile is None or job in self._failed else job.profile.gpu_mem_mib

    def _out_of_memory(self, sharers: GpuSharers) -> list[JobView]:
        """Return the job of a pair that does not fit after all: the one that outgrew its prediction."""
        failed = []
        for later, earlier in sharers.unstable_pairs():
            needed = (self._memory_mib(later) or 0.0) + (self._memory_mib(earlier) or 0.0)
            if needed > self.settings.gpu_memory_mib:
                failed.append(later if later.unstable else earlier)
        self._failed.update(failed)
        for job in failed:
            sharers.end(job)
        return failed

    def _serve(self, room: "Room", queues: UtilisationQueues, now_s: float) -> list[Action]:
        """Serve the queues in turn until none finds a place for one of its first jobs."""
        actions: list[Action] = []
        for job in queues.overdue(self.settings.patience):
            action = room.place(job)
            if action is None:
                room.hold(job)
            else:
                actions.append(action)
                queues.serve(job)
        left_out: set[UtilisationQueue] = set()
        while (queue := queues.in_turn(now_s, left_out)) is not None:
            for job in queue.first(self.settings.buffer):
                action = room.place(job)
                if action is not None:
                    actions.append(action)
                    queues.serve(job)
                    break
            else:
                left_out.add(queue)
        return actions
