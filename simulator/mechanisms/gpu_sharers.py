"""The running jobs of a pool as partners: which could take one, and which have one."""

from bisect import bisect_left, insort
from collections.abc import Callable

from simulator.job_view import JobView
from simulator.snapshot import NodePool

Entry = tuple[float, int, JobView]


class GpuSharers:
    """Running jobs by GPU demand and memory, and the pairs among them.

    Starts and completed jobs are reported to it. All else (a job was killed, a start did not happen)
    shows in the number of running jobs; it then looks at all of them again.
    """

    def __init__(self, memory_mib_of: Callable[[JobView], float | None]) -> None:
        """Take the rule for the memory (MiB a GPU) that a job is held to need; None: it runs alone."""
        self.memory_mib_of = memory_mib_of
        self.gains = 0  # how often a running job became free for a partner other than by starting
        self._forget()

    def _forget(self) -> None:
        self._single: dict[int, list[Entry]] = {}  # by demand; sorted by memory, then by submission
        self._entries: dict[JobView, Entry | None] = {}  # of those without a partner
        self._partner: dict[JobView, JobView] = {}
        self._pairs: dict[JobView, tuple[JobView, JobView]] = {}  # by the job that came later

    def follow(self, pool: NodePool) -> None:
        """Catch up with the jobs that run."""
        if len(self._entries) + len(self._partner) != len(pool.running):
            self.look_again(pool)

    def look_again(self, pool: NodePool) -> None:
        """Read all running jobs anew: what they need may have changed."""
        self._forget()
        self.gains += 1
        for job in pool.running:
            if job.partner is None:
                self.begin(job)
            elif job.joined:
                self._pair(job, job.partner)

    def single(self, gpus: int) -> list[Entry]:
        """Return the possible partners for a job of this demand, least memory first."""
        return self._single.get(gpus, [])

    def unstable_pairs(self) -> list[tuple[JobView, JobView]]:
        """Return the pairs of which one's needs have changed: the job that came later, and its partner."""
        return [pair for pair in self._pairs.values() if pair[0].unstable or pair[1].unstable]

    def begin(self, job: JobView) -> None:
        """Take note of a job that runs on GPUs of its own."""
        memory_mib = self.memory_mib_of(job) if job.shareable else None
        entry = None
        if memory_mib is not None:
            entry = (memory_mib, job.index, job)
            insort(self._single.setdefault(job.gpus, []), entry)
        self._entries[job] = entry

    def join(self, job: JobView, partner: JobView) -> None:
        """Take note of a job that starts on a running job's GPUs."""
        self._leave(partner)
        self._pair(job, partner)

    def _pair(self, job: JobView, partner: JobView) -> None:
        self._partner[job], self._partner[partner] = partner, job
        self._pairs[job] = (job, partner)

    def end(self, job: JobView) -> None:
        """Take note of a job that stops; a partner runs on alone."""
        if job in self._entries:
            self._leave(job)
        elif job in self._partner:
            partner = self._partner.pop(job)
            del self._partner[partner]
            self._pairs.pop(job, None)
            self._pairs.pop(partner, None)
            self.begin(partner)
            self.gains += 1

    def _leave(self, job: JobView) -> None:
        entry = self._entries.pop(job)
        if entry is not None:
            rivals = self._single[job.gpus]
            del rivals[bisect_left(rivals, entry)]
