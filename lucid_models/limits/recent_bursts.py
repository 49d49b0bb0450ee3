"""The last values of jobs that are submitted in bursts: enough jobs of enough bursts.

Jobs that were submitted within one hour are mostly alike and say little more than a few of them: the last
hundred jobs may be one burst. What is remembered reaches back until it holds both so many jobs and so many
bursts.
"""

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

BURST_S = 3_600.0


@dataclass
class _Burst:
    hour: int
    jobs: int = 0
    highest: list[float] = field(default_factory=list)  # a heap, the lowest first


class RecentBursts:
    """Values of the last `least_jobs` jobs, and of the last `least_bursts` bursts.

    Of a burst only the `kept` highest values are remembered, so that its size does not count.
    """

    def __init__(self, least_jobs: int, least_bursts: int, kept: int) -> None:
        self._least_jobs, self._least_bursts, self._kept = least_jobs, least_bursts, kept
        self._bursts: deque[_Burst] = deque()
        self._jobs = 0
        self._falling: list[float] | None = None

    def __len__(self) -> int:
        return self._jobs

    def add(self, submit_s: float, value: float) -> None:
        """The value of a job that was submitted at `submit_s` (Unix time)."""
        burst = self._burst_of(int(submit_s // BURST_S))
        burst.jobs += 1
        self._jobs += 1
        if len(burst.highest) < self._kept:
            heapq.heappush(burst.highest, value)
        else:
            heapq.heappushpop(burst.highest, value)
        while (
            len(self._bursts) > self._least_bursts and self._jobs - self._bursts[0].jobs >= self._least_jobs
        ):
            self._jobs -= self._bursts.popleft().jobs
        self._falling = None

    def highest(self) -> float:
        """The highest value; minus infinity of none."""
        return max((max(burst.highest) for burst in self._bursts), default=-math.inf)

    def exceeded_by(self, share: float) -> float:
        """The value that at most this share of them exceeds, the next job included (the conformal quantile);
        never too low where values were forgotten.
        """
        falling = self.falling()
        place = max(int(share * (self._jobs + 1)) - 1, 0)
        incomplete_below = (burst.highest[0] for burst in self._bursts if burst.jobs > len(burst.highest))
        return max([falling[min(place, len(falling) - 1)], *incomplete_below])

    def falling(self) -> list[float]:
        """What is remembered, the highest first."""
        if self._falling is None:
            self._falling = sorted((value for burst in self._bursts for value in burst.highest), reverse=True)
        return self._falling

    def _burst_of(self, hour: int) -> _Burst:
        for burst in reversed(self._bursts):
            if burst.hour == hour:
                return burst
        self._bursts.append(_Burst(hour))
        return self._bursts[-1]
