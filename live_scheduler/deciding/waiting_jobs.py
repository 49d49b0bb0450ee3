"""The waiting jobs of all pools, as columns: ranked and put in order together, with a few calls."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_scheduler.deciding.live_pools import LivePools
from simulator.job_view import JobView
from simulator.policy import Policy

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


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
    """Put ranks together that are told in columns, when they are asked for."""
    yield from zip(*(column.tolist() for column in columns), strict=True)
