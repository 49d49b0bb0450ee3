"""The least number of nodes that keeps a limit, asked for in rounds of a few replays each."""

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np

GROWTH = 1.5  # by which a size that is too small grows, until one is enough


class NodeSearch:
    """Looks for the least size from `least` to `most` whose value holds, beginning at `start`.

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
