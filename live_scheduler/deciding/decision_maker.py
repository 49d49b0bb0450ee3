"""Decides for a live cluster with the simulator's policies: the same objects, on a snapshot of real nodes.

At each decision every waiting job is estimated anew, ranked by the policy's `priority`, and the policy's
`decide` says which jobs would start now. A cluster that serves the highest priority first then does what the
policy does if it finds, in this order: jobs that are overdue, those that the policy starts now, those that
need no GPU, and the rest as the policy ranks it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import inf
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from live_scheduler.adapter import Profiling
from live_scheduler.cluster_state import ClusterState
from live_scheduler.deciding.decision import Decision, QueuePlace
from live_scheduler.deciding.live_pools import LivePools, ProfileSource, with_profile_facts
from live_scheduler.live_settings import LiveSettings
from live_scheduler.memory.online_state import OnlineState
from simulator.actions import Action, Colocate, Preempt, Start
from simulator.job_view import JobView
from simulator.policy import Policy
from simulator.snapshot import Snapshot
from simulator.workload.colocation import BelievedPairs

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class Estimator(Protocol):
    """Estimates the run times of waiting jobs (`OnlineState`)."""

    @property
    def waiting(self) -> Sequence[str]:
        """The ids of the jobs that are estimated."""

    def join(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Estimate these jobs too from now on (facts as `LiveJob.facts`)."""

    def leave(self, job_ids: Iterable[str]) -> None:
        """Estimate these jobs no longer."""

    def estimates(self, at_s: float) -> NDArray[np.float64]:
        """P50 run times (s), shape (jobs,), in the order of `waiting`."""

    def estimate_now(self, jobs: Sequence[Mapping[str, Any]], at_s: float) -> Sequence[float]:
        """P50 run times (s) of jobs that do not wait, as known at `at_s`."""


@dataclass(frozen=True)
class DecisionSources:
    """What decisions are made of, where it is not the release alone."""

    profile_of: ProfileSource | None = None
    profiling: Profiling | None = None
    estimator_of: Callable[[OnlineState], Estimator] | None = None  # others in the place of the estimates


FROM_THE_RELEASE = DecisionSources()


class DecisionMaker:
    """One policy with one release's estimates: `follow` a reading, then `decide`."""

    stopwatch: Callable[[], float] = staticmethod(perf_counter)  # in seconds; what decisions are timed by

    def __init__(
        self,
        policy: Policy,
        estimator: Estimator,
        settings: LiveSettings,
        *,
        release: str,
        release_version: int | None = None,
        profile_of: ProfileSource | None = None,
        profiling: Profiling | None = None,
        believed_pairs: BelievedPairs | None = None,
    ) -> None:
        self.policy, self.estimator, self.settings = policy, estimator, settings
        self.release, self.release_version = release, release_version
        self._believed_pairs = believed_pairs
        self.pools = LivePools(
            policy,
            partitions=settings.partitions,
            profiling_partition=settings.profiling_partition,
            profile_of=profile_of,
            profiling=profiling,
        )
        self._cluster: ClusterState | None = None
        self._estimated: dict[str, JobView] = {}
        self._waiting = WaitingJobColumns(self.pools, {})

    def follow(self, cluster: ClusterState) -> None:
        """Take in a reading of the cluster."""
        before = self.pools.views
        self.pools.follow(cluster)
        for job_id, view in before.items():
            if view.placement is not None and job_id not in self.pools.views:
                self.policy.observe_end(view, cluster.at_s)
        waiting = {
            view.job.job_id: view
            for queues in (self.pools.waiting, self.pools.cpu_jobs)
            for queue in queues.values()
            for view in queue
        }
        jobs, estimated = cluster.by_id, self._estimated
        # A job that its user changed has a view of its own again, and may have other keys.
        self.estimator.leave(
            [job_id for job_id, view in estimated.items() if waiting.get(job_id) is not view]
        )
        self.estimator.join(
            with_profile_facts(jobs[job_id].facts(), view.job.profile)
            for job_id, view in waiting.items()
            if estimated.get(job_id) is not view
        )
        self._estimated = waiting
        at = {job_id: position for position, job_id in enumerate(self.estimator.waiting)}
        self._waiting = WaitingJobColumns(self.pools, at)
        self._cluster = cluster
        # Jobs that ran before they were ever seen to wait.
        unknown = {
            job_id: view
            for job_id, view in self.pools.views.items()
            if view.placement is not None and view.estimated_duration_s is None
        }
        facts = [jobs[job_id].facts() for job_id in unknown]
        beliefs = self.estimator.estimate_now(facts, cluster.at_s) if facts else ()
        for view, estimate_s in zip(unknown.values(), beliefs, strict=True):
            view.estimated_duration_s = min(estimate_s, view.job.time_limit_s or inf)

    def decide(self) -> Decision:
        """Order all queues as of the last reading.

        Raises BadInputError when an estimate is not a positive number; whatever a policy raises comes
        through.
        """
        cluster = self._cluster
        if cluster is None:
            raise BadInputError("There is nothing to decide on.", remedy="Call `follow` first.")
        began = self.stopwatch()
        now_s = cluster.at_s
        pools, waiting = self.pools.pools, self._waiting
        order, ranks = waiting.rank(self.policy, self.estimator.estimates(now_s))
        waiting.queue_up(order)
        snapshot = Snapshot(pools, now_s, changed=tuple(pools.values()), believed_pairs=self._believed_pairs)
        started, sends_home = _sorted_out(self.policy.decide(snapshot))
        turns = {name: self.policy.service_order(pool) or {} for name, pool in pools.items()}
        orders = waiting.serve(order, started, turns, now_s - self.settings.longest_wait_s)
        latency_s = self.stopwatch() - began
        ranked: list[QueuePlace] = []
        rank_texts = [*ranks]
        rank_texts += [None] * (len(waiting.views) - len(rank_texts))
        for name, (places, overdue) in orders.items():
            starts = started.get(name, {})
            nodes = self.pools.nodes_of(name) if starts else ()
            served = [(waiting.views[place], rank_texts[place]) for place in places.tolist()]
            if turns[name]:
                served = [(view, turns[name].get(view)) for view, _ in served]
            ranked += _places(self.pools.partition_of(name), served, overdue, starts, nodes)
        return Decision(
            at_s=now_s,
            release=self.release,
            release_version=self.release_version,
            policy=self.settings.policy,
            ranked=tuple(ranked),
            sends_home=tuple(sends_home),
            left_alone=self.pools.left_alone,
            latency_s=latency_s,
            profiling_limit_s=self.policy.profiling_limit_s,
        )


def _places(
    partition: str,
    order: Iterable[tuple[JobView, Any]],
    overdue: int,
    started: Mapping[JobView, Start | Colocate],
    nodes: Sequence[str],
) -> Iterable[QueuePlace]:
    for place, (view, rank) in enumerate(order, start=1):
        action = started.get(view) if started else None
        if action is None:
            yield QueuePlace(
                view.job.job_id, partition, place, False, view.estimated_duration_s, rank, place <= overdue
            )
            continue
        yield QueuePlace(
            view.job.job_id,
            partition,
            place,
            True,
            view.estimated_duration_s,
            rank,
            place <= overdue,
            action.partner.job.job_id if isinstance(action, Colocate) else None,
            action.limit_s if isinstance(action, Start) else None,
            tuple([(nodes[at], gpus) for at, gpus in action.placement]) if isinstance(action, Start) else (),
        )


def _sorted_out(
    actions: Iterable[Action],
) -> tuple[dict[str, dict[JobView, Start | Colocate]], list[str]]:
    """The jobs that start, by pool and in order, and those whose run on the profiler is cut short.

    Other actions have no counterpart on a live cluster (nodes are not lent), and are left out.
    """
    started: dict[str, dict[JobView, Start | Colocate]] = {}
    sends_home: list[str] = []
    for action in actions:
        if isinstance(action, Start | Colocate):
            started.setdefault(action.job.pool, {})[action.job] = action
        elif isinstance(action, Preempt) and action.job.run_limit_s is not None:
            sends_home.append(action.job.job.job_id)
    return started, sends_home


class WaitingJobColumns:
    """The jobs that wait, pool by pool, and behind all of them those that ask for no GPU, likewise.

    In each pool those that its queue holds come first, in its order. A *place* counts through all jobs.
    """

    def __init__(self, pools: LivePools, at: Mapping[str, int]) -> None:
        """`at` is where the estimator has each job. The queues hold waiting jobs only."""
        self._pools = pools
        self.names = list(pools.pools)
        self.newcomers = [
            [view for view in pools.waiting[name] if view.queue_entry is None] for name in self.names
        ]
        queues = [
            [*pools.pools[name].queue, *new] for name, new in zip(self.names, self.newcomers, strict=True)
        ]
        cpu_jobs = [pools.cpu_jobs[name] for name in self.names]
        self.views: list[JobView] = [view for queue in (*queues, *cpu_jobs) for view in queue]
        ends = np.cumsum([0, *map(len, queues)]).tolist()
        self.parts = [slice(first, end) for first, end in pairwise(ends)]
        self._ranked = ends[-1]
        numbers = range(len(self.names))
        self._pool = np.repeat(
            np.array([*numbers, *numbers], dtype=np.uint16), [*map(len, queues), *map(len, cpu_jobs)]
        )
        self._positions = np.array([at[view.job.job_id] for view in self.views], dtype=np.intp)
        self._indices = np.array([view.index for view in self.views], dtype=np.int64)  # seen first, for ties
        self._gpus = np.array([view.gpus for view in self.views], dtype=np.float64)
        self._submit_s = np.array([view.submit_time_s for view in self.views])
        self._limits_s = np.array([inf if (s := view.job.time_limit_s) is None else s for view in self.views])

    def rank(self, policy: Policy, estimates: Floats) -> tuple[Places, Iterable[Any]]:
        """Let the jobs know their estimates, which exceed no time limit, and rank those that ask for GPUs.

        Returns their places, pool by pool in the policy's order, and what they are ranked by, in the order of
        `views`.
        """
        own = np.minimum(estimates.take(self._positions), self._limits_s)
        for view, estimate_s in zip(self.views, own.tolist(), strict=True):
            view.estimated_duration_s = estimate_s
        rules = [policy.rank_by_columns(name) for name in self.names]
        if rules and rules[0] is not None and all(rule == rules[0] for rule in rules):
            return self._by_columns(rules[0], slice(0, self._ranked), own)
        orders = [np.empty(0, dtype=np.intp)]
        ranks: list[Iterable[Any]] = []
        for rule, part in zip(rules, self.parts, strict=True):
            order, rows = (
                self._one_by_one(policy.priority, part) if rule is None else self._by_columns(rule, part, own)
            )
            orders.append(order)
            ranks.append(rows)
        return np.concatenate(orders), chain.from_iterable(ranks)

    def _by_columns(
        self, rule: Callable[..., tuple[Any, ...]], part: slice, own: Floats
    ) -> tuple[Places, Iterable[Any]]:
        columns = rule(self._gpus[part], own[part], self._submit_s[part])
        pool, first = self._pool[part], columns[0]
        # Equals stay as they stood, which is nearly always right, and sorts fast what is nearly sorted.
        order = np.lexsort((first, pool))
        here, behind = order[:-1], order[1:]
        equal = ((first[here] == first[behind]) & (pool[here] == pool[behind])).nonzero()[0]
        if not _ahead([*columns[1:], self._indices[part]], here[equal], behind[equal]).all():
            order = np.lexsort((self._indices[part], *reversed(columns), pool))
        return order + part.start, _rows(columns)

    def _places_of(self, jobs: Mapping[JobView, Any], places: Iterable[int]) -> list[int]:
        """The places of these jobs in their order, found among `places`: most stand at the front."""
        place_of: dict[JobView, int] = {}
        for place in places:
            if len(place_of) == len(jobs):
                break
            if self.views[place] in jobs:
                place_of[self.views[place]] = place
        return [place_of[job] for job in jobs]

    def _one_by_one(self, priority: Callable[[JobView], Any], part: slice) -> tuple[Places, Iterable[Any]]:
        ranks = [priority(view) for view in self.views[part]]
        places = range(part.start, part.stop)
        in_order = sorted(zip(ranks, self._indices[part].tolist(), places, strict=True))
        return np.array([place for _, _, place in in_order], dtype=np.intp), ranks

    def queue_up(self, order: Places) -> None:
        """Put the pools' queues into this order; most jobs stand at their places already."""
        moved = order != np.arange(order.size)
        for name, part, newcomers in zip(self.names, self.parts, self.newcomers, strict=True):
            queue, places = self._pools.pools[name].queue, order[part]
            if newcomers:
                views = [self.views[place] for place in places.tolist()]
                queue.reorder(views, newcomers, int(self._gpus[part].sum()))
            else:
                at = moved[part].nonzero()[0]
                if at.size:
                    queue.exchange(at.tolist(), [self.views[place] for place in places[at].tolist()])

    def serve(
        self,
        order: Places,
        started: Mapping[str, Mapping[JobView, Any]],
        turns: Mapping[str, Mapping[JobView, Any]],
        overdue_since_s: float,
    ) -> dict[str, tuple[Places, int]]:
        """Return the places of each pool's jobs, first served first, and how many of them are overdue.

        Overdue (submitted before that moment), started now, without GPUs, and the rest in `order`, or as
        their turns come where there are any.
        """
        order, served = order.copy(), np.zeros(len(self.views), dtype=bool)
        late = (self._submit_s < overdue_since_s).nonzero()[0]
        if late.size:
            late = late[np.lexsort((self._indices[late], self._submit_s[late]))]
            served[late] = True
        starting: list[int] = []
        for name, part in zip(self.names, self.parts, strict=True):
            if name not in started and not turns.get(name):
                continue
            places = order[part].tolist()
            starting_places = self._places_of(started.get(name, {}), places)
            starting += [place for place in starting_places if not served[place]]
            if mine := turns.get(name):
                keys = [(mine[self.views[place]], self.views[place].index) for place in places]
                order[part] = [place for _, place in sorted(zip(keys, places, strict=True))]
        served[starting] = True
        rest = np.concatenate([np.arange(self._ranked, len(self.views)), order])
        turn = np.concatenate([late, np.array(starting, dtype=np.intp), rest[~served[rest]]])
        turn = turn[np.argsort(self._pool[turn], kind="stable")]
        jobs, overdue = (
            np.bincount(pool, minlength=len(self.names)) for pool in (self._pool, self._pool[late])
        )
        ends = np.cumsum([0, *jobs]).tolist()
        return {
            name: (turn[first:end], count)
            for name, (first, end), count in zip(self.names, pairwise(ends), overdue.tolist(), strict=True)
        }


def _ahead(keys: Sequence[NDArray[Any]], one: Places, other: Places) -> NDArray[np.bool_]:
    """Whether each job at `one` comes before that at `other` by these keys, the most significant first."""
    ahead = np.zeros(one.size, dtype=bool)
    for key in reversed(keys):
        ahead = (key[one] < key[other]) | ((key[one] == key[other]) & ahead)
    return ahead


def _rows(columns: Sequence[NDArray[Any]]) -> Iterator[tuple[Any, ...]]:
    """Build ranks from columns, when they are asked for."""
    yield from zip(*(column.tolist() for column in columns), strict=True)
