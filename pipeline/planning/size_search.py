"""Sizes tried by replays: the least one of the cluster, and of each virtual cluster, that keeps a limit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.replays import PlanReplays, Replayed
from pipeline.replay.proportional_sizes import in_proportion
from pipeline.studies.wait_target import WaitTarget

GROWTH = 1.5  # by which a size that is too small grows, until one is enough


class NodeSearch:
    """Looks for the least size from `least` to `most` with a value that holds, beginning at `start`.

    A size that holds and a smaller one that does not are brought together until they are neighbours: both
    have been tried then, unless the least size holds. Where values are not monotone it is one such pair.
    """

    def __init__(self, least: int, start: int, most: int, holds: Callable[[float], bool]) -> None:
        self.least, self.most = least, max(least, most)
        self._start = min(max(start, least), self.most)
        self._holds = holds
        self.values: dict[int, float] = {}

    @property
    def answer(self) -> int | None:
        """The least size that is known to hold; None: none that was tried does."""
        return min((size for size, value in self.values.items() if self._holds(value)), default=None)

    @property
    def done(self) -> bool:
        """Whether nothing more is to be asked: the answer's neighbour fails, or `most` does."""
        answer, fails = self.answer, self._fails
        return fails >= self.most if answer is None else answer - fails <= 1

    @property
    def _fails(self) -> int:
        """The largest size below the answer that is known to fail; one below the least if none is."""
        answer = self.answer
        below = (size for size in self.values if answer is None or size < answer)
        return max(below, default=self.least - 1)

    def asks(self, count: int) -> list[int]:
        """Return up to `count` sizes to try next; none: the search is over."""
        if self.done:
            return []
        answer, fails = self.answer, self._fails
        if answer is not None:
            between = np.linspace(fails, answer, count + 2)[1:-1]
            return sorted({min(max(round(size), fails + 1), answer - 1) for size in between.tolist()})
        if not self.values:
            return [self._start]
        sizes, size = [], fails
        for _ in range(count):
            size = min(self.most, max(size + 1, ceil(size * GROWTH)))
            sizes.append(size)
        return sorted(set(sizes))

    def tell(self, size: int, value: float) -> None:
        """Take note of a size's value; sizes outside of the search are left out."""
        if self.least <= size <= self.most:
            self.values[size] = value


def isotonic_falling(values: Sequence[float]) -> list[float]:
    """Return the falling sequence that is nearest to `values` in squares (pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for value in values:
        total, count = value, 1
        while pools and pools[-1][0] / pools[-1][1] < total / count:
            before, size = pools.pop()
            total, count = total + before, count + size
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]


Measure = Callable[[Replayed], float]


@dataclass(frozen=True)
class SizeSearch:
    """Looks for least sizes by replays of one log."""

    replays: PlanReplays
    target: WaitTarget

    @property
    def least_nodes(self) -> int:
        """Nodes that the largest job of each virtual cluster needs."""
        return sum(self.replays.log.least.values())

    @property
    def most_nodes(self) -> int:
        """Nodes with which no job waits for GPUs, and no fewer than at present."""
        log = self.replays.log
        return sum(max(log.most[name], log.present[name]) for name in log.present)

    def sized(self, run: PlannedRun, total: int) -> PlannedRun:
        """Return a run on a cluster of so many nodes in proportion to the present ones."""
        log = self.replays.log
        return run.on(in_proportion(total, log.present, log.least, log.most))

    def of_cluster(self, run: PlannedRun, start: int, measure: Measure) -> NodeSearch:
        """Search the sizes of the whole cluster, in proportion, for the least with a measure that holds.

        Begins at `start`, and goes by all replays of this variant that were made before.
        """
        search = NodeSearch(self.least_nodes, start, self.most_nodes, self.target.holds)
        for replayed in self.in_proportion(run):
            search.tell(replayed.run.total_nodes, measure(replayed))
        while sizes := search.asks(self.replays.workers):
            made = self.replays.of([self.sized(run, size) for size in sizes])
            for size, replayed in zip(sizes, made, strict=True):
                search.tell(size, measure(replayed))
        return search

    def in_proportion(self, run: PlannedRun) -> list[Replayed]:
        """Return all replays so far of a run on nodes in proportion, by size."""
        sized = [each for each in self.replays if each.run == self.sized(run, each.run.total_nodes)]
        return sorted(sized, key=lambda each: each.run.total_nodes)

    # -- virtual clusters ------------------------------------------------------------------------------------

    def wait_in(self, replayed: Replayed, name: str) -> float:
        """Return the metric of the jobs of one virtual cluster (s)."""
        return self.target.of(replayed.waits_s[self.jobs_of(name)])

    def jobs_of(self, name: str) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """Return which jobs are of a virtual cluster (or pool of several), shape (jobs,)."""
        log = self.replays.log
        return np.array([log.homes[job.virtual_cluster] == name for job in log.jobs], dtype=bool)

    def with_jobs(self) -> list[str]:
        """Return the virtual clusters (or pools of several) that have jobs, by name."""
        return sorted(name for name, least in self.replays.log.least.items() if least)

    def are_independent(self, run: PlannedRun) -> bool:
        """Whether jobs wait alike in a virtual cluster when all others are of another size.

        Tried on the present nodes, with every other virtual cluster a node larger: once those at odd places
        of the list, once those at even ones. No proof: answers found for all at once are replayed together.
        """
        names = self.with_jobs()
        if len(names) < 2:
            return True
        nodes = self.present_or_least()
        halves = (set(names[::2]), set(names[1::2]))
        grown = [run.on({name: count + (name in half) for name, count in nodes.items()}) for half in halves]
        present, *others = self.replays.of([run.on(nodes), *grown])
        for half, other in zip(halves, others, strict=True):
            for name in names:
                mine = self.jobs_of(name)
                if name not in half and not np.array_equal(present.waits_s[mine], other.waits_s[mine]):
                    return False
        return True

    def present_or_least(self) -> dict[str, int]:
        """Return the present nodes; where the largest job needs more, so many."""
        log = self.replays.log
        return {name: max(count, log.least[name]) for name, count in log.present.items()}

    def of_virtual_clusters(self, run: PlannedRun, *, independent: bool) -> Mapping[str, NodeSearch]:
        """Search the least size of each virtual cluster that has jobs, all others as they are at present.

        Where they are independent, one replay tries a size of each at once.
        """
        log, nodes = self.replays.log, self.present_or_least()
        searches = {
            name: NodeSearch(log.least[name], nodes[name], log.most[name], self.target.holds)
            for name in self.with_jobs()
        }
        while asked := {
            name: sizes for name, search in searches.items() if (sizes := search.asks(self.replays.workers))
        }:
            tried = _all_at_once(asked) if independent else _one_by_one(asked)
            made = self.replays.of([run.on({**nodes, **sizes}) for sizes in tried])
            for sizes_tried, replayed in zip(tried, made, strict=True):
                for name, size in sizes_tried.items():
                    searches[name].tell(size, self.wait_in(replayed, name))
        return searches


def _all_at_once(asked: Mapping[str, list[int]]) -> list[dict[str, int]]:
    rounds = max(map(len, asked.values()))
    return [
        {name: sizes[number] for name, sizes in asked.items() if number < len(sizes)}
        for number in range(rounds)
    ]


def _one_by_one(asked: Mapping[str, list[int]]) -> list[dict[str, int]]:
    return [{name: size} for name, sizes in asked.items() for size in sizes]
