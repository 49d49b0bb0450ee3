"""What indolent packing remembers of a pool: partners, pairs, and waiting jobs that may be packed."""

from collections.abc import Sequence
from math import inf

from simulator.cluster.placement import NOWHERE, Placement, lies_within
from simulator.job_view import JobView, RunState
from simulator.mechanisms.overtaking_bound import OverdueFirst
from simulator.snapshot import NodePool

SCORES = 3  # Tiny, Medium, Jumbo

# (when it is believed to end, or 0 where run times are not known; the start of the run that is meant; the
# job's place in the workload, for ties; the job)
Entry = tuple[float, float, int, JobView]


def in_queue(job: JobView) -> tuple[object, int]:
    """Return the sort key of a waiting job in its queue."""
    entry = job.queue_entry
    return (None, 0) if entry is None else entry[:2]


def memory_mib(job: JobView) -> float:
    """Return a job's memory on each of its GPUs, as measured."""
    return 0.0 if job.profile is None else job.profile.gpu_mem_mib


class EqualDemand:
    """Jobs of one GPU demand: running ones that may get a partner, and waiting ones that may be packed."""

    __slots__ = ("alone", "fresh", "waiting")

    def __init__(self) -> None:
        self.alone: list[list[Entry]] = [[] for _ in range(SCORES)]  # by sharing score, sorted by end
        self.fresh: set[JobView] = set()  # those that not all of the queue has been tried on
        self.waiting: list[set[JobView]] = [set() for _ in range(SCORES)]  # by sharing score

    def lowest_score(self) -> int:
        """Return the lowest sharing score among the running ones; SCORES when there is none."""
        return next((score for score, found in enumerate(self.alone) if found), SCORES)

    def waiting_up_to(self, score: int) -> int:
        """Return how many jobs of at most this sharing score wait."""
        return sum(map(len, self.waiting[: score + 1]))


class PoolMemory:
    """What is remembered of a pool. All of it follows from what snapshots showed."""

    __slots__ = (
        "by_gpus",
        "capacity",
        "checked_s",
        "expected",
        "kept_clear",
        "later_of",
        "newcomers",
        "offered",
        "overdue",
        "pairs",
        "parted",
        "pool",
        "running",
        "scanned_s",
        "starting",
        "unmeasured",
    )

    def __init__(self, pool: NodePool) -> None:
        self.pool = pool
        self.by_gpus: dict[int, EqualDemand] = {}
        self.newcomers: list[JobView] = []  # to the queue
        self.pairs: dict[JobView, JobView] = {}  # later-placed -> earlier-placed
        self.offered: dict[JobView, float] = {}  # partners, now or soon -> the start of the run that is meant
        self.kept_clear = False  # whether no pair was to delay an overdue job at the last decision
        self.unmeasured: list[Entry] = []  # heap by the time from which on their metrics are known
        self.later_of: dict[JobView, JobView] = {}  # the same, the other way round
        self.parted: list[JobView] = []  # later-placed of pairs of which one has completed
        self.expected = 0  # how many jobs run once the last actions are applied
        self.running = 0  # the same, less those that have completed since
        self.checked_s = -inf
        self.scanned_s = -inf  # when all pairs were looked at
        self.capacity = 0
        # Of this very decision: the job that no pair may delay; jobs that get GPUs of their own, and which.
        self.overdue: OverdueFirst | None = None
        self.starting: dict[JobView, Placement] = {}

    def is_within(self, job: JobView, nodes: int) -> bool:
        """Whether a job runs, or starts now, on these nodes (`JobView.nodes`) only."""
        return lies_within(job.placement or self.starting.get(job, NOWHERE), nodes)

    def of(self, gpus: int) -> EqualDemand:
        """Return what is remembered of the jobs of a GPU demand."""
        equal = self.by_gpus.get(gpus)
        if equal is None:
            equal = self.by_gpus[gpus] = EqualDemand()
        return equal

    def pair(self, later: JobView, earlier: JobView) -> None:
        """Note that two jobs share their GPUs."""
        self.pairs[later] = earlier
        self.later_of[earlier] = later

    def still_alone(self, entry: Entry) -> bool:
        """Say whether the run that is meant goes on, alone and stable, or begins now."""
        job = entry[3]
        return (
            job.state is RunState.RUNNING
            and job.partner is None
            and job.start_time_s == entry[1]
            and not job.unstable
        ) or (job in self.starting and self.offered.get(job) == entry[1])

    def forget(self, entries: Sequence[Entry]) -> None:
        """Strike partners off; the caller takes the entries out."""
        for _, start_s, _, job in entries:
            if self.offered.get(job) == start_s:
                del self.offered[job]
            self.by_gpus[job.gpus].fresh.discard(job)

    def refresh(self) -> None:
        """Have all partners tried on all of the queue once more."""
        for equal in self.by_gpus.values():
            equal.fresh.update(entry[3] for entries in equal.alone for entry in entries)
