"""How much may be asked of a cluster: so many changes a pass, so many a minute, the weightiest first.

What is put off is not remembered: the next pass compares the cluster with what is wanted then. Nothing waits
for a change that was put off, since no change blocks a job: an unranked one keeps the cluster's own place.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from live_scheduler.adapter import (
    Advise,
    Change,
    MoveTo,
    RestrictToNode,
    ReturnToDefault,
    SendHome,
    SetPriority,
    StartAfter,
)

Wanted = TypeVar("Wanted")

# What frees a job comes before what orders it, and texts for people come last.
_WEIGHT: Mapping[type, int] = {
    SendHome: 0,
    ReturnToDefault: 1,
    MoveTo: 2,
    RestrictToNode: 2,
    StartAfter: 2,
    SetPriority: 2,
    Advise: 3,
}


class TokenBucket:
    """What may be asked for now: `most` at once, filled at `per_minute`. `clock` is monotonic, in seconds."""

    def __init__(self, most: int, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """It is full."""
        self.most = most
        self._per_s = per_minute / 60.0
        self._clock = clock
        self._tokens = float(most)
        self._filled_s = clock()

    def room(self) -> int:
        """Return how many may be taken now."""
        now_s = self._clock()
        self._tokens = min(float(self.most), self._tokens + max(0.0, now_s - self._filled_s) * self._per_s)
        self._filled_s = now_s
        return int(self._tokens + 1e-9)

    def take(self, count: int) -> None:
        """Take as many."""
        self._tokens -= count

    def take_first(self, wanted: Sequence[Wanted]) -> Sequence[Wanted]:
        """Return the first ones, as many as may be taken now."""
        allowed = wanted[: self.room()]
        self.take(len(allowed))
        return allowed


class RateLimit:
    """A token bucket that holds one pass's changes and fills at `changes_per_minute`.

    So a pass asks for `changes_per_pass` at most, and any minute for one pass's more than
    `changes_per_minute` at most. `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        changes_per_pass: int,
        changes_per_minute: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bucket = TokenBucket(changes_per_pass, changes_per_minute, clock=clock)

    def choose(self, changes: Sequence[Change], places: Mapping[str, int]) -> tuple[list[Change], int]:
        """Return the changes that may be asked for now, weightiest first, and how many are put off.

        `places` are the wanted places of jobs in their queues, from 1: the front of every queue comes first.
        The changes of one job stay together and in their order, texts aside: all of them or none, except
        that a job with more changes than the limit allows a pass gets them one after the other.
        """
        groups: dict[tuple[str, bool], list[Change]] = {}
        for change in changes:
            groups.setdefault((change.job_id, isinstance(change, Advise)), []).append(change)
        allowed: list[Change] = []
        room = self._bucket.room()
        for group in sorted(groups.values(), key=lambda group: _order(group, places)):
            if len(group) > room:
                # Later, smaller groups wait too: a job is not overtaken for needing two changes.
                if len(group) > self._bucket.most:
                    allowed += group[:room]
                break
            allowed += group
            room -= len(group)
        self._bucket.take(len(allowed))
        return allowed, len(changes) - len(allowed)


def _order(group: Sequence[Change], places: Mapping[str, int]) -> tuple[int, float]:
    weight = min(_WEIGHT[type(change)] for change in group)
    return weight, places.get(group[0].job_id, math.inf)
