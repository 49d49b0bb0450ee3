"""Weighted fair queuing for jobs that run on all of their GPUs or not at all, and are never stopped.

The rules are those of `rules.rigid_admission`, on the views of a cluster with nodes: waiting jobs are kept
from decision to decision, so that one costs what the classes and the running jobs cost, however many wait.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from parts.elastic.rules.rigid_admission import WaitingLine, admit
from parts.elastic.rules.water_filling import water_fill
from simulator.actions import Start
from simulator.job_view import JobView
from simulator.snapshot import NodePool


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """A job that waits for all of its GPUs; earlier submissions are lower."""

    index: int
    min_gpus: int = field(compare=False)
    submit_time_s: float = field(compare=False)
    service_s: float = field(compare=False)  # as estimated when it was first seen
    size_class: int = field(compare=False)
    view: JobView = field(compare=False)


@dataclass(slots=True)
class _PoolLine:
    """The waiting jobs of a pool."""

    pool: NodePool
    line: WaitingLine[Claim]
    waiting: set[JobView] = field(default_factory=set)  # the jobs in the line
    admitted: list[Claim] = field(default_factory=list)  # at the last decision

    def add(self, claim: Claim) -> None:
        self.line.add(claim)
        self.waiting.add(claim.view)


class FairStarts:
    """Says which jobs start; `classes` are the size classes of all jobs that were ever seen."""

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
        self._lines: dict[str, _PoolLine] = {}

    def decide(self, pool: NodePool, now_s: float) -> list[Start]:
        """Start waiting jobs on all of their GPUs; what runs is left alone."""
        kept = self._brought_up_to(pool)
        held = [0] * len(self._weights)
        class_and_size = self.known
        for view in pool.running:  # each holds all that it asks for
            seen = class_and_size.get(view) or self._admitted(view)
            held[seen[0]] += view.gpus
        gpus = pool.free.total + sum(held)
        demands = [own + asked for own, asked in zip(held, kept.line.asked, strict=True)]
        shares = water_fill(self._weights, demands, gpus)
        kept.admitted = admitted = admit(shares, held, kept.line, gpus, now_s)
        kept.waiting.difference_update([claim.view for claim in admitted])
        plan = pool.plan() if admitted else pool.free
        starts = []
        for claim in sorted(admitted):
            placement = plan.place(claim.min_gpus)
            if placement is not None:
                starts.append(Start(claim.view, placement))
        return starts

    def waiting(self, pool: NodePool) -> Iterable[Claim]:
        """Return the waiting jobs of a pool, in the order of submission."""
        return self._brought_up_to(pool).line

    def _brought_up_to(self, pool: NodePool) -> _PoolLine:
        kept = self._lines.get(pool.name)
        newcomers = pool.queue.take_newcomers()
        if kept is None or kept.pool is not pool:
            kept = self._lines[pool.name] = _PoolLine(pool, WaitingLine(len(self._weights)))
            newcomers = list(pool.queue)
        else:
            # A job that was to start and has not (a live cluster may not follow) waits on.
            for claim in kept.admitted:
                if claim.view.queue_entry is not None and claim.view not in kept.waiting:
                    kept.add(claim)
            kept.admitted = []
        for view in newcomers:
            if view.queue_entry is not None and view not in kept.waiting:
                at, size_s = self._admitted(view)
                kept.add(Claim(view.index, view.gpus, view.submit_time_s, size_s, at, view))
        if len(kept.waiting) != len(pool.queue):  # a job was withdrawn
            kept.line.keep(lambda claim: claim.view.queue_entry is not None)
            kept.waiting = {claim.view for claim in kept.line}
        return kept

    def _admitted(self, view: JobView) -> tuple[int, float]:
        class_and_size = self.known.get(view)
        if class_and_size is None:
            size_s = self._size_of(view)
            class_and_size = self.known[view] = self._class_of(size_s), size_s
        return class_and_size
