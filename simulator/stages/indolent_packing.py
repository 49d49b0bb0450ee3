"""Indolent packing (Lucid section 3.3): pairs that are unlikely to hurt each other share a set of GPUs.

What a pair needs: sharing scores that sum to at most G_SS, GPU memory below the limit, equal GPU demand, one
node, no third job on these GPUs, stable utilisation, metrics that were measured, and a partner that has run
time left. Of the partners that are left, a job takes the one that is believed to end closest to its own end:
what runs alone beside a partner that has gone is capacity that is not used (section 3.1, dependence 3).

What is remembered of a pool is made of the snapshot, and made again when a live scheduler hands over another
one. A job that waits anew is tried on all partners, a new partner on all jobs that wait; pairs that were
refused are not tried again, because what a pair is refused for stays (scores, memory) or gets worse (run time
left).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import heappop, heappush
from math import inf

from simulator.actions import Colocate, Preempt, Start
from simulator.cluster.placement import Placement
from simulator.job_view import JobView, RunState
from simulator.mechanisms.overtaking_bound import OverdueFirst
from simulator.snapshot import NodePool
from simulator.stages.indolent_settings import IndolentSettings, PairRule
from simulator.stages.pool_memory import (
    SCORES,
    Entry,
    EqualDemand,
    PoolMemory,
    in_queue,
    memory_mib,
)
from simulator.workload.colocation import BelievedPairs

ANY = 2 * SCORES  # a sharing capacity that no pair exceeds
DEFAULT_CAPACITY = 2  # with less the strategy is apathetic
LOOK_EVERY_S = 600.0
WALK_FROM = 8  # the queue is walked unless the jobs to look at are fewer than one in so many of it


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
        self._by_pairs = settings.packing_rule == "pairs" and not self._naive
        # Jobs that may be packed at all are alike but for the pair that would be made.
        self._scoreless = self._naive or self._by_pairs
        self._rule: PairRule | None = None
        self._timed = knows_run_times and settings.partners_by == "end" and not self._naive
        self.memories: dict[str, PoolMemory] = {}  # by pool

    def ended(self, job: JobView) -> None:
        """Note that a running job has completed. Saves a search; without it the next look finds out."""
        memory = self.memories.get(job.pool)
        if memory is not None:
            memory.running -= 1
            later = job if job in memory.pairs else memory.later_of.get(job)
            if later is not None:
                memory.parted.append(later)

    def evictions(self, pool: NodePool, now_s: float) -> list[Preempt]:
        """Bring the memory up to date, and return the jobs that unstable utilisation drives out (rule 4).

        All pairs are looked at when a job has left the pool that had not completed, when nothing else
        explains why there is a decision to make, and when the last time was LOOK_EVERY_S ago.
        """
        memory = self._memory_of(pool)
        arrived = pool.queue.take_newcomers()
        if arrived:
            memory.newcomers += arrived
        elif memory.running == memory.expected:  # no other event can have asked for a decision
            memory.scanned_s = -inf
        if memory.parted:
            for later in memory.parted:
                if later in memory.pairs:
                    self._part(memory, later)
            memory.parted.clear()
        count = len(pool.running)
        evicted: list[Preempt] = []
        if count != memory.running or now_s - memory.scanned_s >= LOOK_EVERY_S:
            memory.scanned_s = now_s
            evicted = self._unstable(memory)
        memory.running = memory.expected = count
        self._see_new(memory, now_s)
        if evicted:
            memory.running = -1  # look at all pairs again
        return evicted

    def _unstable(self, memory: PoolMemory) -> list[Preempt]:
        """Look at all pairs: those that have parted, and those that unstable utilisation is to part."""
        evicted: list[Preempt] = []
        for later, earlier in list(memory.pairs.items()):
            if later.partner is not earlier:
                self._part(memory, later)
            elif (later.unstable or earlier.unstable) and self.settings.evict_unstable and not self._naive:
                evicted.append(Preempt(later, keeps_progress=False))
        return evicted

    def pack(
        self,
        pool: NodePool,
        capacity: int | None,
        now_s: float,
        starts: Collection[Start] = (),
        believed: BelievedPairs | None = None,
        overdue: OverdueFirst | None = None,
    ) -> list[Colocate]:
        """Return pairs of waiting and running jobs; `starts` are the jobs that get GPUs of their own now.

        To be called after `evictions`, for each decision. `capacity` is G_SS; None: no jobs share.
        `believed` are the predicted speeds that the packing rule "pairs" goes by. No pair may delay an
        `overdue` job.
        """
        if self._by_pairs and (self._rule is None or self._rule.believed is not believed):
            self._rule = PairRule(self.settings, believed)
        memory = self._memory_of(pool)
        if memory.kept_clear and overdue is None:
            memory.refresh()  # jobs that were kept out of the way of an overdue one are tried again
        memory.kept_clear = overdue is not None
        new = self._take_newcomers(memory, starts) if memory.newcomers or starts else {}
        actions: list[Colocate] = []
        if capacity is None:
            memory.capacity = -1  # try all jobs once there is sharing again
        else:
            if self._naive:
                capacity = ANY
            if capacity > memory.capacity:
                memory.refresh()
            memory.capacity = capacity
            if pool.queue.length > len(starts):
                for action in starts:
                    self._offer(memory, action.job, now_s, action.placement)
                if new or any(equal.fresh for equal in memory.by_gpus.values()):
                    memory.overdue = overdue
                    memory.starting = {action.job: action.placement for action in starts}
                    actions = self._match(memory, capacity, now_s, new)
                    memory.overdue, memory.starting = None, {}
        if memory.running >= 0:
            memory.running = memory.expected = len(pool.running) + len(starts) + len(actions)
        return actions

    def next_measured_s(self, pool: NodePool) -> float | None:
        """Return when the next running job's metrics are known; None: those of all are."""
        memory = self.memories.get(pool.name)
        return None if memory is None or not memory.unmeasured else memory.unmeasured[0][0]

    # -- running jobs ---------------------------------------------------------------------------------------

    def _memory_of(self, pool: NodePool) -> PoolMemory:
        memory = self.memories.get(pool.name)
        if memory is None or memory.pool is not pool:
            memory = self.memories[pool.name] = PoolMemory(pool)
        return memory

    def _part(self, memory: PoolMemory, later: JobView) -> None:
        """One of a pair has gone, and may have left the other behind."""
        earlier = memory.pairs.pop(later)
        memory.later_of.pop(earlier, None)
        for job in (earlier, later):
            if job.state is RunState.RUNNING and job.partner is None and job.pool == memory.pool.name:
                self._offer(memory, job, job.start_time_s, job.placement)
        if later.state is RunState.PENDING:  # the action was not applied
            memory.newcomers.append(later)

    def _see_new(self, memory: PoolMemory, now_s: float) -> None:
        """Take note of the jobs that began to run since the last time, and of those that are measured."""
        seen_s = memory.checked_s
        memory.checked_s = now_s
        new: list[JobView] = []
        for job in reversed(memory.pool.running):
            if job.start_time_s < seen_s:
                break
            new.append(job)
        if new:
            done: set[JobView] = set()
            for job in reversed(new):
                partner = job.partner
                if partner is None:
                    self._offer(memory, job, job.start_time_s, job.placement)
                elif partner in done or partner.start_time_s < seen_s:
                    memory.pair(job, partner)
                done.add(job)
        while memory.unmeasured and memory.unmeasured[0][0] <= now_s:
            _, start_s, _, job = heappop(memory.unmeasured)
            if job.state is RunState.RUNNING and job.start_time_s == start_s and job.partner is None:
                self._insert(memory, job, start_s)
            elif memory.offered.get(job) == start_s:
                del memory.offered[job]

    def _offer(self, memory: PoolMemory, job: JobView, start_s: float, placement: Placement | None) -> None:
        """Make a job that runs, or starts now, a partner, once its metrics are known."""
        profile = job.profile
        if (
            memory.offered.get(job) == start_s
            or placement is None
            or profile is None
            or job.run_limit_s is not None
        ):
            return
        if not job.shareable or (
            not self._naive
            and (len(placement) > 1 or (profile.sharing_score is None and not self._by_pairs) or job.unstable)
        ):
            return
        memory.offered[job] = start_s
        if not job.profiled and not self.settings.packs_unmeasured:
            ran_before_s = job.attained_s
            if job.state is RunState.RUNNING:
                ran_before_s -= job.run_since_s - start_s
            measured_s = start_s + max(0.0, self._measured_after_s(job) - ran_before_s)
            if measured_s > memory.checked_s:
                heappush(memory.unmeasured, (measured_s, start_s, job.index, job))
                return
        self._insert(memory, job, start_s)

    def _insert(self, memory: PoolMemory, job: JobView, start_s: float) -> None:
        equal = memory.of(job.gpus)
        end_s = start_s + job.estimate_s if self._timed else 0.0
        insort(equal.alone[self._partner_score(job)], (end_s, start_s, job.index, job))
        equal.fresh.add(job)

    # -- waiting jobs ---------------------------------------------------------------------------------------

    def _take_newcomers(self, memory: PoolMemory, starts: Collection[Start]) -> dict[int, list[JobView]]:
        """Take note of the jobs that wait anew and may be packed, and return them by GPU demand."""
        new: dict[int, list[JobView]] = {}
        if memory.newcomers:
            starting = {action.job for action in starts}
            for job in dict.fromkeys(memory.newcomers):
                if (
                    job in starting
                    or job.state is not RunState.PENDING
                    or job.pool != memory.pool.name
                    or (score := self._score(job)) is None
                ):
                    continue
                memory.of(job.gpus).waiting[score].add(job)
                new.setdefault(job.gpus, []).append(job)
            memory.newcomers = []
        for action in starts:
            self._strike_off(memory, action.job)
        return new

    def _strike_off(self, memory: PoolMemory, job: JobView) -> None:
        equal = memory.by_gpus.get(job.gpus)
        if equal is not None:
            equal.waiting[self._partner_score(job)].discard(job)

    def _match(
        self, memory: PoolMemory, capacity: int, now_s: float, new: Mapping[int, list[JobView]]
    ) -> list[Colocate]:
        """Go through the jobs for which there is anything new, in the queue's order."""
        actions: list[Colocate] = []
        for gpus, equal in memory.by_gpus.items():
            newcomers = new.get(gpus, ())
            if not newcomers and not equal.fresh:
                continue
            lowest = equal.lowest_score()
            for job in self._candidates(memory, equal, gpus, capacity, newcomers):
                if lowest == SCORES:
                    break
                score = self._partner_score(job)
                if job.state is not RunState.PENDING:
                    equal.waiting[score].discard(job)
                    continue
                if score + lowest > capacity:
                    continue
                if (
                    self._rule is not None
                    and job not in newcomers
                    and not self._suits_a_new_one(equal, job, capacity)
                ):
                    continue
                partner = self._closest(memory, equal, job, capacity - score, now_s)
                if partner is not None:
                    actions.append(Colocate(job, partner))
                    memory.pair(job, partner)
                    equal.waiting[score].discard(job)
                    lowest = equal.lowest_score()
            equal.fresh.clear()
        return actions

    def _candidates(
        self,
        memory: PoolMemory,
        equal: EqualDemand,
        gpus: int,
        capacity: int,
        newcomers: Collection[JobView],
    ) -> Iterator[JobView]:
        """Yield, in the queue's order, the jobs of one GPU demand that came now or may suit a new partner."""
        if not equal.fresh:
            yield from sorted(newcomers, key=in_queue)
            return
        score_max = capacity - min(map(self._partner_score, equal.fresh))
        suited = equal.waiting_up_to(score_max)
        waiting = memory.pool.queue.by_gpus().get(gpus)
        if waiting is None or suited + len(newcomers) <= len(waiting) // WALK_FROM:
            few = set(newcomers).union(*equal.waiting[: score_max + 1])
            yield from sorted(few, key=in_queue)
            return
        new = set(newcomers)
        tried = -1  # how many new partners the bound on memory was made for
        limit_mib = 0.0
        for job in waiting:
            if job in new:
                new.discard(job)
                yield job
                continue
            if len(equal.fresh) != tried:
                tried = len(equal.fresh)
                if tried:
                    limit_mib = self.settings.gpu_memory_mib - min(map(memory_mib, equal.fresh))
                elif not new:
                    return
            score = self._partner_score(job)
            if tried and memory_mib(job) < limit_mib and score <= score_max and job in equal.waiting[score]:
                yield job

    def _partner_score(self, job: JobView) -> int:
        profile = job.profile
        return 0 if self._scoreless or profile is None else profile.sharing_score or 0

    def _score(self, job: JobView) -> int | None:
        """Return a waiting job's sharing score; None: it is not to be packed."""
        profile = job.profile
        if profile is None or not self._is_measured(job):
            return None
        if self._naive:
            return 0
        if job.unstable:
            return None
        return 0 if self._by_pairs else profile.sharing_score

    def _is_measured(self, job: JobView) -> bool:
        if job.profiled or self.settings.packs_unmeasured:
            return True
        return job.attained_s > 0 and job.attained_s >= self._measured_after_s(job)

    def _suits_a_new_one(self, equal: EqualDemand, job: JobView, capacity: int) -> bool:
        rule = self._rule
        return rule is None or any(
            rule.allows(job, other, apathetic=capacity < DEFAULT_CAPACITY) for other in equal.fresh
        )

    def _closest(
        self, memory: PoolMemory, equal: EqualDemand, job: JobView, capacity: int, now_s: float
    ) -> JobView | None:
        """Take the partner that ends closest to the job, out of those that no rule forbids."""
        settings, rule, overdue = self.settings, self._rule, memory.overdue
        limit_mib = settings.gpu_memory_mib - memory_mib(job)
        wanted_s = earliest_s = -inf
        needed_estimate_s = 0.0
        if self._timed:
            wanted_s = now_s + job.estimate_s
            earliest_s = now_s + settings.partner_min_remaining_s
            if settings.priority_ratio_max:
                needed_estimate_s = job.estimate_s / settings.priority_ratio_max
        best: Entry | None = None
        best_gap_s = inf
        best_entries: list[Entry] = []
        for entries in equal.alone[: capacity + 1]:
            if not entries:
                continue
            if entries[0][0] < earliest_s:  # little run time left, and never more
                ended = bisect_left(entries, (earliest_s,))
                memory.forget(entries[:ended])
                del entries[:ended]
            at = bisect_left(entries, (wanted_s,))
            for step in (1, -1):
                i = at if step > 0 else at - 1
                while 0 <= i < len(entries):
                    entry = entries[i]
                    gap_s = abs(entry[0] - wanted_s)
                    if best is not None and gap_s >= best_gap_s:
                        break
                    other = entry[3]
                    if not memory.still_alone(entry):
                        memory.forget((entry,))
                        del entries[i]
                        if step < 0:
                            i -= 1
                        continue
                    if (
                        memory_mib(other) < limit_mib
                        and (job.nodes is None or memory.is_within(other, job.nodes))
                        and (not needed_estimate_s or other.estimate_s >= needed_estimate_s)
                        and (rule is None or rule.allows(job, other, apathetic=capacity < DEFAULT_CAPACITY))
                        and (overdue is None or not overdue.is_delayed_by(job, other, now_s))
                    ):
                        best, best_gap_s, best_entries = entry, gap_s, entries
                        break
                    i += step
        if best is None:
            return None
        del best_entries[bisect_left(best_entries, best)]
        memory.forget((best,))
        return best[3]
