"""Clarity: our own scheduler, for a reader who wants to know why a job runs where it runs. Non-intrusive.

Jobs are served shortest expected service first, and one that does not fit does not hold up the others. What
is left to decide is when two jobs share a set of GPUs, and there is one rule for it. Sharing costs both jobs
some speed and saves GPUs; a pair is made when the job-seconds that it loses per GPU-second that it saves
(`simulator.mechanisms.pair_gain`) are at most the *price* of a GPU-second at this moment:

- No job had to wait lately: the price is nought. Every job runs alone, as under shortest service first.
- GPUs are idle, but lately jobs had to wait: a low price. Large jobs, which save the most, go together where
  it hardly hurts, so that the next burst of small jobs finds GPUs.
- There are no GPUs for the job: a high price. Whatever gains on the whole is packed.

There is no profiling partition. A job is measured where it runs, at no loss; and what a program needs is
known of all its later runs (`Job.template`). A job of an unknown kind runs alone.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any

from simulator.actions import Action, Colocate, Preempt, Start
from simulator.job_queue import Entry
from simulator.job_view import JobView
from simulator.mechanisms.node_holds import NodeHolds
from simulator.mechanisms.overtaking_bound import OvertakingBound, OvertakingSettings
from simulator.mechanisms.pair_gain import PairGain
from simulator.mechanisms.partner_search import MeasuredTemplates, PartnerSearch, PartnerSettings
from simulator.mechanisms.preemption import PREEMPTION_OVERHEAD_S
from simulator.policy import Policy, RunCosts
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.colocation import ColocationModel


@dataclass(frozen=True)
class ClaritySettings(PartnerSettings, OvertakingSettings):
    """Settings of Clarity. Prices are job-seconds lost per GPU-second saved.

    - `price_short`: the price when a job finds no idle GPUs; 0: only what costs nothing is packed.
    - `price_idle`: the price while GPUs are idle, after a shortage; 0: no sharing while GPUs are idle.
    - `calm_s`: a shortage is remembered for so long. It is one if a job of at most a node finds no GPUs.
    - `headroom`: with more than this share of a virtual cluster's GPUs idle, every job runs alone.
    - `idle_service_min_gpu_s`: jobs that are expected to need less service never share while GPUs are idle:
      they are gone before the next burst.
    - `lookahead`: how many waiting jobs of each size are considered for sharing, in the order of the queue.
    - `holds`: for how many waiting gangs nodes are held back, in the order of the queue.
    - `preemption`: when jobs are in need that find no other way, two running jobs are moved onto the GPUs of
      one of them; the one that moves is checkpointed, which costs it 62 s.
    - `price_move`: the price for that; `move_remaining_min_s`: both are expected to run on for so long.
    - `pair_speeds`: predicts the speeds of a pair from both profiles; None: the rule on summed utilisation.
    - `learns_speeds`: the speeds of pairs that ran here replace the predictions.
    """

    price_short: float = 0.2
    price_idle: float = 0.02
    calm_s: float = 259_200.0
    headroom: float = 0.5
    idle_service_min_gpu_s: float = 28_800.0
    lookahead: int = 16
    holds: int = 1
    preemption: bool = False
    price_move: float = 0.05
    move_remaining_min_s: float = 7_200.0
    pair_speeds: ColocationModel | None = None
    learns_speeds: bool = True


class Clarity(Policy):
    """Shortest expected service first; two jobs share GPUs when what that saves is worth what it costs."""

    needs_estimates = True
    unequal_nodes = True
    at_events_only = True  # jobs are measured, and shortages forgotten, in between
    Settings = ClaritySettings

    def __init__(self, settings: ClaritySettings | None = None) -> None:
        self.settings = settings or ClaritySettings()
        self.pairs = PairGain(self.settings.pair_speeds, learns=self.settings.learns_speeds)
        self.measured = MeasuredTemplates(self.settings)
        if self.settings.preemption:
            self.costs = RunCosts(preemption_s=PREEMPTION_OVERHEAD_S)
        self.overtaking = OvertakingBound(self.settings.overtaking_bound_s)
        self.overtaking_bound_s = self.overtaking.bound_s
        # By pool:
        self._search: dict[str, PartnerSearch] = {}
        self._holds: dict[str, NodeHolds] = {}
        self._short_until_s: dict[str, float] = {}  # when its last shortage is forgotten

    def history(self) -> tuple[Any, ...]:
        """Return what was measured and refused, which nodes are held, and when GPUs were short."""
        return (
            self.pairs,
            self.measured,
            self._search,
            self._holds,
            self._short_until_s,
            self.overtaking.memory(),
        )

    def resume(self, pools: Mapping[str, NodePool], history: tuple[Any, ...] | None) -> None:
        """Go on with it."""
        if history is not None:
            self.pairs, self.measured, self._search, self._holds, self._short_until_s, overdue = history
            self.overtaking.remember(overdue)

    def priority(self, job: JobView) -> tuple[float, float]:
        """Order by expected service (GPU-seconds), then by submission."""
        return (job.gpus * job.estimate_s, job.submit_time_s)

    def observe_end(self, job: JobView, now_s: float) -> None:
        """Remember that a program has been measured."""
        self.measured.learn(job, job.attained_s)
        search = self._search.get(job.pool)
        if search is not None:
            search.ended(job)

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Serve each changed queue."""
        actions: list[Action] = []
        self.pairs.look(snapshot.now_s)
        for pool in snapshot.changed:
            if pool.queue.length:
                actions += self._serve(pool, snapshot.now_s)
        return actions

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """Look again when a job has waited for long enough to share."""
        search = self._search.get(pool.name)
        return None if search is None or search.due_s == inf else search.due_s

    def _serve(self, pool: NodePool, now_s: float) -> list[Action]:  # noqa: C901, PLR0912, PLR0915
        """Start or pack the waiting jobs, in their order; go on past those for which there is nothing."""
        settings = self.settings
        actions: list[Action] = []
        turn = self.overtaking.begin(pool, now_s)
        plan = pool.plan() if turn is None else turn.plan
        # What does not fit leaves no room for larger jobs, if these may use the same nodes.
        all_alike = plan.has_equal_nodes and not pool.masks
        size = plan.gpus_per_node
        crowded_below = 0.0  # idle GPUs
        if settings.price_idle and self._short_until_s.get(pool.name, -1.0) >= now_s:
            crowded_below = settings.headroom * pool.total_gpus
        idle_service = settings.idle_service_min_gpu_s
        holds = self._holds.setdefault(pool.name, NodeHolds())
        holds.begin()
        search = self._search.get(pool.name)
        if search is None:
            search = self._search[pool.name] = PartnerSearch(settings, self.pairs, self.measured)
        search.due_s = inf
        looked_around = is_short = False
        refused: Mapping[JobView, float] = {}
        overdue: Collection[JobView] = ()
        if turn is not None:
            actions += turn.starts
            overdue = [start.job for start in turn.starts]
            for job in overdue:
                search.started(job)
        too_large = plan.total + 1  # demands from here on up find no idle GPUs
        for job in _front(pool, settings.lookahead):
            if job in overdue:
                continue
            gpus = job.gpus
            placement = plan.find(gpus, job.nodes) if gpus < too_large else None
            if placement is None:
                if turn is not None:
                    beside = turn.place_beside(job, now_s)
                    if beside is not None:
                        search.started(job)
                        actions.append(Start(job, beside))
                        continue
                if holds.idle_gpus >= gpus:
                    beside = holds.place_beside(job, plan, now_s)
                    if beside is not None:
                        search.started(job)
                        actions.append(Start(job, beside))
                        continue
                if gpus < too_large and all_alike:
                    too_large = gpus
                is_short = is_short or gpus <= size
                price = settings.price_short
            elif plan.total - gpus < crowded_below and gpus * job.estimate_s >= idle_service:
                price = settings.price_idle
            else:
                plan.take(placement)
                search.started(job)
                actions.append(Start(job, placement))
                continue
            if gpus <= size:
                if not looked_around:
                    looked_around = True
                    held = holds.until_s if turn is None else {**holds.until_s, **turn.until_s}
                    search.look_around(pool, held, now_s)
                    refused = search.refused_until_s
                refused_until_s = 0.0 if placement is not None else refused.get(job, 0.0)
                if refused_until_s > now_s:
                    partner = None
                    search.due_s = min(search.due_s, refused_until_s)
                else:
                    partner = search.take(job, price, in_need=placement is None)
                if partner is not None:
                    actions.append(Colocate(job, partner))
                    self.pairs.watch(job, partner, now_s)
                    continue
            if placement is not None:
                plan.take(placement)
                search.started(job)
                actions.append(Start(job, placement))
            elif gpus > 1 and turn is None and len(holds) < settings.holds:
                holds.hold(job, pool, plan, now_s)
        if is_short:
            self._short_until_s[pool.name] = now_s + settings.calm_s
        if settings.preemption and not actions:
            actions = self._move_together(pool, search, now_s)
        return actions

    def _move_together(self, pool: NodePool, search: PartnerSearch, now_s: float) -> list[Action]:
        """Free GPUs for the jobs in need by moving running jobs of two GPUs and more together, largest first.

        The free GPUs are handed out a second later.
        """
        settings = self.settings
        node = pool.free.gpus_per_node
        sizes = [size for size in pool.queue.by_gpus() if size <= node]
        if not sizes:
            return []
        needed = sum(part.gpus for size, part in pool.queue.by_gpus().items() if size <= node)
        actions: list[Action] = []
        for size in range(node, max(1, min(sizes) - 1), -1):
            while needed > 0:
                two = search.take_two(size, settings.price_move * size, settings.move_remaining_min_s)
                if two is None:
                    break
                mover, stays = two
                actions += [Preempt(mover), Colocate(mover, stays)]
                self.pairs.watch(mover, stays, now_s)
                search.due_s = now_s + 1.0
                needed -= size
        return actions


def _front_of_each(pool: NodePool, lookahead: int) -> Iterator[JobView]:
    """Yield the same where virtual clusters share nodes: so many of each size and virtual cluster."""
    free = pool.free.total
    seen: Counter[tuple[int, int | None]] = Counter()
    for job in pool.queue:
        demand = (job.gpus, job.nodes)
        seen[demand] += 1
        if seen[demand] <= free // job.gpus + lookahead:
            yield job


def _front(pool: NodePool, lookahead: int) -> Iterable[JobView]:
    """Return, in the queue's order, no more jobs of each size than could start or are looked at."""
    free = pool.free.total
    if pool.masks:
        return _front_of_each(pool, lookahead)
    if pool.queue.length <= lookahead:
        return pool.queue
    front: list[Entry] = []
    for gpus, part in pool.queue.by_gpus().items():
        front += islice(part.entries(), free // gpus + lookahead)
    front.sort()
    return [entry[2] for entry in front]
