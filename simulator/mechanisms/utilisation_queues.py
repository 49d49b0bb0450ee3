"""Waiting jobs in queues by predicted GPU utilisation, and which queue is served next (Horus, section 6).

A job of little utilisation shares GPUs easily, one of much does not: jobs of a class compete for the same
room, so each class waits in a queue of its own, first come, first served.
"""

from bisect import bisect_left, insort

from simulator.job_view import JobView, RunState
from simulator.snapshot import NodePool

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
