"""Weighted fair queuing for jobs that run on all of their GPUs or not at all, and are never stopped.

The rules are those of `rules.rigid_turns`, on the views of a cluster with nodes: who waits is kept from
decision to decision, so that one costs what the classes and the running jobs cost, however many wait.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from simulator.actions import Start
from simulator.elastic.rules.rigid_turns import turns
from simulator.elastic.rules.water_filling import water_fill
from simulator.snapshot import JobView, NodePool


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """A job that waits for all of its GPUs; earlier submissions are lower."""

    index: int
    min_gpus: int = field(compare=False)
    submit_time_s: float = field(compare=False)
    service_s: float = field(compare=False)  # as believed when it was first seen
    size_class: int = field(compare=False)
    view: JobView = field(compare=False)


class FairStarts:
    """Says who starts; `classes` are the size classes of all jobs that were ever seen."""

    def __init__(
        self,
        weights: tuple[float, ...],
        class_of: Callable[[float], int],
        size_of: Callable[[JobView], float],
        classes: Mapping[JobView, tuple[int, float]] | None = None,
    ) -> None:
        """`size_of` a job (s on one GPU) and `class_of` a size are asked once a job."""
        self._weights = weights
        self._class_of, self._size_of = class_of, size_of
        self.known: dict[JobView, tuple[int, float]] = dict(classes or {})  # class and size
        self._books: dict[str, _Books] = {}

    def decide(self, pool: NodePool, now_s: float) -> list[Start]:
        """Start waiting jobs on all of their GPUs; what runs is left alone."""
        books = self._brought_up_to(pool)
        held = [0] * len(self._weights)
        known = self.known
        for view in pool.running:  # each holds all that it asks for
            seen = known.get(view) or self._admitted(view)
            held[seen[0]] += view.gpus
        gpus = pool.free.total + sum(held)
        demands = [own + asked for own, asked in zip(held, books.asked, strict=True)]
        shares = water_fill(self._weights, demands, gpus)
        given = turns(shares, held, books, gpus, now_s)
        given.sort()
        plan = pool.plan() if given else pool.free
        starts = []
        for claim in given:
            placement = plan.place(claim.min_gpus)
            if placement is not None:
                starts.append(Start(claim.view, placement))
        return starts

    def waiting(self, pool: NodePool) -> Iterator[Claim]:
        """Iterate over who waits in a pool, in the order of submission."""
        books = self._brought_up_to(pool)
        claims = [claim for parts in books.parts for part in parts.values() for claim in part]
        return iter(sorted(claims))

    def _brought_up_to(self, pool: NodePool) -> "_Books":
        books = self._books.get(pool.name)
        newcomers = pool.queue.take_newcomers()
        if books is None or books.pool is not pool:
            books = self._books[pool.name] = _Books(pool, len(self._weights))
            newcomers = list(pool.queue)
        else:
            # Whoever was to start and has not (a cluster has its own ways) waits on.
            for claim in books.gone:
                if claim.view.queue_entry is not None and claim.view not in books.there:
                    books.add(claim)
            books.gone.clear()
        for view in newcomers:
            if view.queue_entry is not None and view not in books.there:
                at, size_s = self._admitted(view)
                books.add(Claim(view.index, view.gpus, view.submit_time_s, size_s, at, view))
        if len(books.there) != len(pool.queue):  # somebody has withdrawn a job
            books.leave()
        return books

    def _admitted(self, view: JobView) -> tuple[int, float]:
        known = self.known.get(view)
        if known is None:
            size_s = self._size_of(view)
            known = self.known[view] = self._class_of(size_s), size_s
        return known


class _Books:
    """Who waits in a pool, by class and demand."""

    __slots__ = ("asked", "gone", "parts", "pool", "there")

    def __init__(self, pool: NodePool, classes: int) -> None:
        self.pool = pool
        self.parts: list[dict[int, list[Claim]]] = [{} for _ in range(classes)]  # heaps by demand
        self.asked = [0] * classes  # GPUs, together
        self.there: set[JobView] = set()
        self.gone: list[Claim] = []  # given GPUs at the last decision

    def add(self, claim: Claim) -> None:
        """Have a job wait."""
        heappush(self.parts[claim.size_class].setdefault(claim.min_gpus, []), claim)
        self.asked[claim.size_class] += claim.min_gpus
        self.there.add(claim.view)

    def first(self, size_class: int, most_gpus: float) -> Claim | None:
        """Return the first of a class that asks for so few GPUs."""
        parts = self.parts[size_class]
        return min((part[0] for gpus, part in parts.items() if gpus <= most_gpus), default=None)

    def taken(self, claim: Claim) -> Claim:
        """Take out the first of its class and demand."""
        parts = self.parts[claim.size_class]
        part = parts[claim.min_gpus]
        heappop(part)
        if not part:
            del parts[claim.min_gpus]
        self.asked[claim.size_class] -= claim.min_gpus
        self.there.discard(claim.view)
        self.gone.append(claim)
        return claim

    def leave(self) -> None:
        """Take out whoever does not wait any more."""
        for at, parts in enumerate(self.parts):
            for gpus, part in list(parts.items()):
                kept = [claim for claim in part if claim.view.queue_entry is not None]
                self.asked[at] -= gpus * (len(part) - len(kept))
                if kept:
                    heapify(kept)
                    parts[gpus] = kept
                else:
                    del parts[gpus]
        self.there = {claim.view for parts in self.parts for part in parts.values() for claim in part}
