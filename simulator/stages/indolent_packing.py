"""Indolent packing (Lucid section 3.3): pairs that are unlikely to hurt each other share a set of GPUs.

What a pair needs: sharing scores that sum to at most G_SS, GPU memory below the limit, equal GPU demand, one
node, nobody else on these GPUs, stable utilisation, metrics that were measured, and a partner that has run
time left. Of the partners that are left, a job takes the one that is believed to end closest to its own end:
what runs alone beside a partner that has gone is capacity that nobody uses (section 3.1, dependence 3).

What is remembered of a pool is made of the snapshot, and made again when a live scheduler hands over another
one. A job that waits anew is tried on all partners, a new partner on all jobs that wait; pairs that were
refused are not tried again, because what a pair is refused for stays (scores, memory) or gets worse (run time
left).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Any, Literal

from cluster_logs.errors import BadInputError
from simulator.actions import Colocate, Preempt, Start
from simulator.job_queue import JobQueue
from simulator.snapshot import JobView, NodePool, RunState
from simulator.stages.binder import BinderSettings

PACKINGS = ("indolent", "naive")
SCORES = 3  # Tiny, Medium, Jumbo
ANY = 2 * SCORES  # a sharing capacity that no pair exceeds


@dataclass(frozen=True)
class IndolentSettings(BinderSettings):
    """Settings of packing, beside those of the binder.

    - `partner_min_remaining_s`: a running job that is believed to end sooner is no partner.
    - `priority_ratio_max`: a job is not packed with one that is estimated to run so many times shorter; 0: no
      such rule, since partners are chosen by when they end.
    - `evict_unstable`: when the utilisation of a packed job turns out unstable, the later-placed of the pair
      has to go. Nothing was checkpointed, so it starts again from zero, alone or with another partner.
    - `packing`: "indolent", or "naive" for the ablation without binder (section 4.5): bin packing that
      respects GPU memory, and nothing else; the earliest-started partner that fits.
    """

    partner_min_remaining_s: float = 0.0
    priority_ratio_max: float = 0.0
    evict_unstable: bool = True
    packing: Literal["indolent", "naive"] = "indolent"

    def __post_init__(self) -> None:
        """Refuse an unknown way to pack."""
        super().__post_init__()
        if self.packing not in PACKINGS:
            raise BadInputError(
                f"packing is {self.packing!r}.", remedy=f"Choose one of: {', '.join(PACKINGS)}."
            )


# (when it is believed to end, or its start where run times are not known; sequence; job; start of the run)
_Entry = tuple[float, int, JobView, float]


class _Alone:
    """Running jobs of one GPU demand that may get a partner, by sharing score, sorted by end."""

    __slots__ = ("by_score", "fresh")

    def __init__(self) -> None:
        self.by_score: list[list[_Entry]] = [[] for _ in range(SCORES)]
        self.fresh: set[JobView] = set()  # those that not all of the queue has been tried on

    def lowest_score(self) -> int:
        """Return the lowest sharing score that is there; SCORES when there is none."""
        return next((score for score, found in enumerate(self.by_score) if found), SCORES)


class _Books:
    """What is remembered of a pool."""

    __slots__ = (
        "alone",
        "capacity",
        "newcomers",
        "offered",
        "pairs",
        "pool",
        "running",
        "seen_s",
        "sequence",
        "unmeasured",
    )

    def __init__(self, pool: NodePool) -> None:
        self.pool = pool
        self.alone: dict[int, _Alone] = {}
        self.newcomers: list[JobView] = []  # to the queue
        self.pairs: dict[JobView, JobView] = {}  # later-placed -> earlier-placed
        self.offered: dict[
            JobView, float
        ] = {}  # partners, now or later -> the start of the run that is meant
        self.unmeasured: list[_Entry] = []  # heap by the time from which on their metrics are known
        self.running = 0  # how many jobs run once the last actions are applied
        self.seen_s = -inf
        self.capacity = 0
        self.sequence = 0

    def forget(self, entry: _Entry) -> None:
        """Strike a partner off; the caller takes the entry out."""
        job = entry[2]
        if self.offered.get(job) == entry[3]:
            del self.offered[job]
        self.alone[job.gpus].fresh.discard(job)


class IndolentPacking:
    """Finds partners for waiting jobs among the running ones.

    `measured_after_s` says for how long a job that was not profiled has to run until its metrics are known
    (section 3.2: large jobs are measured on the fly). Without `knows_run_times` partners are taken by lowest
    sharing score, then earliest start.
    """

    def __init__(
        self,
        settings: IndolentSettings,
        measured_after_s: Callable[[JobView], float],
        *,
        knows_run_times: bool = True,
    ) -> None:
        self.settings = settings
        self._measured_after_s = measured_after_s
        self._naive = settings.packing == "naive"
        self._timed = knows_run_times and not self._naive
        self._books: dict[str, _Books] = {}

    def evictions(self, pool: NodePool, now_s: float) -> list[Preempt]:
        """Bring the books up to date, and return whom unstable utilisation drives out (rule 4).

        Pairs are looked at when somebody has left the pool and when nothing else explains why there is a
        decision to make; so instability is seen at once, or when the next job ends.
        """
        books = self._books_of(pool)
        arrived = pool.queue.take_newcomers()
        books.newcomers += arrived
        left = len(pool.running) != books.running
        found: list[Preempt] = []
        if left or not arrived:
            books.running = len(pool.running)
            for later in [
                later
                for later, earlier in books.pairs.items()
                if later.partner is not earlier or later.unstable or earlier.unstable
            ]:
                if later.partner is not books.pairs[later]:
                    self._part(books, later)
                elif self.settings.evict_unstable and not self._naive:
                    found.append(Preempt(later, keeps_progress=False))
        self._see_new(books, now_s)
        while books.unmeasured and books.unmeasured[0][0] <= now_s:
            _, _, job, start_s = heappop(books.unmeasured)
            if job.state is RunState.RUNNING and job.start_time_s == start_s and job.partner is None:
                self._insert(books, job)
        if found:
            books.running = -1  # look at the pairs again
        return found

    def pack(
        self, pool: NodePool, capacity: int | None, now_s: float, starts: Collection[Start] = ()
    ) -> list[Colocate]:
        """Return pairs of waiting and running jobs; `starts` are the jobs that get GPUs of their own now.

        To be called after `evictions`, for each decision. `capacity` is G_SS; None: nobody shares.
        """
        books = self._books_of(pool)
        newcomers = books.newcomers
        books.newcomers = []
        actions: list[Colocate] = []
        if capacity is None:
            books.capacity = -1  # try everybody once there is sharing again
        else:
            if self._naive:
                capacity = ANY
            if capacity > books.capacity:
                for alone in books.alone.values():
                    alone.fresh.update(entry[2] for entries in alone.by_score for entry in entries)
            books.capacity = capacity
            if len(pool.queue) > len(starts):
                starting = {action.job for action in starts}
                new = {
                    job
                    for job in newcomers
                    if job.state is RunState.PENDING and job.pool == pool.name and job not in starting
                }
                actions = self._match(books, capacity, now_s, new, starting)
        if books.running >= 0:
            books.running = len(pool.running) + len(starts) + len(actions)
        return actions

    def next_measured_s(self, pool: NodePool) -> float | None:
        """Return when the next running job's metrics are known, if somebody waits for a partner."""
        books = self._books.get(pool.name)
        if books is None or not books.unmeasured or not len(pool.queue):
            return None
        return books.unmeasured[0][0]

    # -- who runs --------------------------------------------------------------------------------------------

    def _books_of(self, pool: NodePool) -> _Books:
        books = self._books.get(pool.name)
        if books is None or books.pool is not pool:
            books = self._books[pool.name] = _Books(pool)
        return books

    def _part(self, books: _Books, later: JobView) -> None:
        """One of a pair has gone, and may have left the other behind."""
        for job in (books.pairs.pop(later), later):
            if job.state is RunState.RUNNING and job.partner is None and job.pool == books.pool.name:
                self._offer(books, job)

    def _see_new(self, books: _Books, now_s: float) -> None:
        """Take note of the jobs that began to run since the last time."""
        seen_s = books.seen_s
        new: list[JobView] = []
        for job in reversed(books.pool.running):
            if job.start_time_s < seen_s:
                break
            new.append(job)
        books.seen_s = now_s
        done: set[JobView] = set()
        for job in reversed(new):
            partner = job.partner
            if partner is None:
                self._offer(books, job)
            elif partner in done or partner.start_time_s < seen_s:
                books.pairs[job] = partner
            done.add(job)

    def _offer(self, books: _Books, job: JobView) -> None:
        """Make a running job a partner, now or once its metrics are known, unless a rule is against it."""
        start_s = job.start_time_s
        placement, profile = job.placement, job.profile
        if (
            books.offered.get(job) == start_s
            or placement is None
            or profile is None
            or job.run_limit_s is not None
        ):
            return
        if job.stranded or (
            not self._naive and (len(placement) > 1 or profile.sharing_score is None or job.unstable)
        ):
            return
        books.offered[job] = start_s
        if not job.profiled and not self.settings.packs_unmeasured:
            ran_before_s = job.attained_s - (job.run_since_s - start_s)
            measured_s = start_s + max(0.0, self._measured_after_s(job) - ran_before_s)
            if measured_s > books.seen_s:
                books.sequence += 1
                heappush(books.unmeasured, (measured_s, books.sequence, job, start_s))
                return
        self._insert(books, job)

    def _insert(self, books: _Books, job: JobView) -> None:
        alone = books.alone.get(job.gpus)
        if alone is None:
            alone = books.alone[job.gpus] = _Alone()
        score = self._partner_score(job)
        books.sequence += 1
        end_s = job.start_time_s + (job.estimate_s if self._timed else 0.0)
        insort(alone.by_score[score], (end_s, books.sequence, job, job.start_time_s))
        alone.fresh.add(job)

    # -- who waits -------------------------------------------------------------------------------------------

    def _match(
        self, books: _Books, capacity: int, now_s: float, newcomers: set[JobView], starting: set[JobView]
    ) -> list[Colocate]:
        actions: list[Colocate] = []
        parts = books.pool.queue.by_gpus()
        for gpus, alone in books.alone.items():
            if not newcomers and not alone.fresh:
                continue
            waiting = parts.get(gpus)
            if waiting is not None:
                new = [job for job in newcomers if job.gpus == gpus]
                if alone.fresh:
                    jobs: Iterable[JobView] = self._candidates(waiting, alone, capacity, starting, new)
                else:
                    jobs = sorted(new, key=_in_queue)
                actions += self._match_in_order(books, alone, jobs, capacity, now_s)
            alone.fresh.clear()
        return actions

    def _candidates(
        self,
        waiting: JobQueue,
        alone: _Alone,
        capacity: int,
        starting: set[JobView],
        newcomers: Collection[JobView],
    ) -> Iterator[JobView]:
        """Yield, in the queue's order, the jobs of one GPU demand that came now or may suit a new partner."""
        new = set(newcomers)
        tried = -1  # how many new partners the bounds below were made for
        score_max = 0
        memory_mib = 0.0
        for job in waiting:
            if job in new:
                new.discard(job)
            else:
                if len(alone.fresh) != tried:
                    tried = len(alone.fresh)
                    if tried:
                        score_max = capacity - min(map(self._partner_score, alone.fresh))
                        memory_mib = self.settings.gpu_memory_mib - min(map(_memory_mib, alone.fresh))
                    elif not new:
                        return
                profile = job.profile
                if (
                    not tried
                    or profile is None
                    or profile.gpu_mem_mib >= memory_mib
                    or (profile.sharing_score or 0) > score_max
                    or job in starting
                ):
                    continue
            yield job

    def _match_in_order(
        self, books: _Books, alone: _Alone, jobs: Iterable[JobView], capacity: int, now_s: float
    ) -> list[Colocate]:
        actions: list[Colocate] = []
        lowest = alone.lowest_score()
        for job in jobs:
            if lowest == SCORES:
                break
            score = self._score(job)
            if score is None or score + lowest > capacity:
                continue
            partner = self._closest(books, alone, job, capacity - score, now_s)
            if partner is not None:
                actions.append(Colocate(job, partner))
                books.pairs[job] = partner
                lowest = alone.lowest_score()
        return actions

    def _partner_score(self, job: JobView) -> int:
        profile = job.profile
        return 0 if self._naive or profile is None else profile.sharing_score or 0

    def _score(self, job: JobView) -> int | None:
        """Return a waiting job's sharing score; None: it is not to be packed."""
        profile = job.profile
        if profile is None or not self._is_measured(job):
            return None
        if self._naive:
            return 0
        return None if job.unstable else profile.sharing_score

    def _is_measured(self, job: JobView) -> bool:
        if job.profiled or self.settings.packs_unmeasured:
            return True
        return job.attained_s > 0 and job.attained_s >= self._measured_after_s(job)

    def _closest(
        self, books: _Books, alone: _Alone, job: JobView, capacity: int, now_s: float
    ) -> JobView | None:
        """Take the partner whose end is closest to the job's out of those that no rule forbids."""
        settings = self.settings
        profile = job.profile
        memory_mib = settings.gpu_memory_mib - (profile.gpu_mem_mib if profile is not None else 0.0)
        wanted_s = earliest_s = -inf
        needed_estimate_s = 0.0
        if self._timed:
            wanted_s = now_s + job.estimate_s
            earliest_s = now_s + settings.partner_min_remaining_s
            if settings.priority_ratio_max:
                needed_estimate_s = job.estimate_s / settings.priority_ratio_max
        best: _Entry | None = None
        best_gap_s = inf
        chosen: list[_Entry] = []
        for entries in alone.by_score[: capacity + 1]:
            if not entries:
                continue
            if entries[0][0] < earliest_s:  # little run time left, and never more
                ended = bisect_left(entries, (earliest_s,))
                for entry in entries[:ended]:
                    books.forget(entry)
                del entries[:ended]
            at = bisect_left(entries, (wanted_s,))
            for step in (1, -1):
                i = at if step > 0 else at - 1
                while 0 <= i < len(entries):
                    entry = entries[i]
                    gap_s = abs(entry[0] - wanted_s)
                    if best is not None and gap_s >= best_gap_s:
                        break
                    other = entry[2]
                    if not _still_alone(entry):
                        books.forget(entry)
                        del entries[i]
                        if step < 0:
                            i -= 1
                        continue
                    if (
                        other.profile is not None
                        and other.profile.gpu_mem_mib < memory_mib
                        and (not needed_estimate_s or other.estimate_s >= needed_estimate_s)
                    ):
                        best, best_gap_s, chosen = entry, gap_s, entries
                        break
                    i += step
        if best is None:
            return None
        del chosen[bisect_left(chosen, best)]
        books.forget(best)
        return best[2]


def _still_alone(entry: _Entry) -> bool:
    """Say whether the run that is meant goes on, alone and stable."""
    job = entry[2]
    return (
        job.state is RunState.RUNNING
        and job.partner is None
        and job.start_time_s == entry[3]
        and not job.unstable
    )


def _memory_mib(job: JobView) -> float:
    return 0.0 if job.profile is None else job.profile.gpu_mem_mib


def _in_queue(job: JobView) -> Any:
    return job.queue_entry
