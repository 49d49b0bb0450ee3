"""An inference cluster beside the one for training: how busy it is, and how many servers it needs (Lyra)."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from foundation.errors import BadInputError
from parts.lending.replay.orchestrator import share_of_servers
from simulator.snapshot import Lender

_SHARES = ("usage", "believed", "seen_usage")


@dataclass(frozen=True)
class InferenceServers(Lender):
    """Servers that inference occupies in part, and lends when it does not need them.

    `usage[i]` (0 to 1) is the share of the servers in use from `times_s[i]` on (s), until the next time;
    before the first time it is the first, after the last the last. With `repeats` the series begins anew
    after its end, one typical bin after the last time.

    Decisions go by what is known when bin i begins: `seen_usage[i]`, that of the newest finished bin (None:
    `usage[i]` itself is known), and `believed[i]`, what a forecaster said before of bin i.

    One training worker takes `loaned_workers_per_worker` workers on loaned servers at unchanged speed (Lyra,
    section 7.1: three servers with T4 equal one with V100), and a job that runs on both kinds of servers does
    `mixed_speed` of the work (section 7.4: 70 %).
    """

    servers: int
    times_s: Sequence[float]
    usage: Sequence[float]
    believed: Sequence[float] | None = None
    seen_usage: Sequence[float] | None = None
    loaned_workers_per_worker: int = 3
    mixed_speed: float = 0.7
    repeats: bool = False
    name: str = "inference"

    def __post_init__(self) -> None:
        if self.servers < 0:
            raise BadInputError(f"{self.name!r} has {self.servers} servers.", remedy="Use 0 or more.")
        if self.loaned_workers_per_worker < 1 or not 0 < self.mixed_speed <= 1:
            raise BadInputError(
                f"{self.name!r} takes {self.loaned_workers_per_worker} loaned workers for one, and its "
                f"jobs on both kinds of servers run at a speed of {self.mixed_speed}.",
                remedy="Use 1 worker or more, and a speed above 0, up to 1.",
            )
        for field in ("times_s", *_SHARES):
            values = getattr(self, field)
            if values is not None:
                object.__setattr__(self, field, tuple(float(value) for value in values))
        times_s = self.times_s
        if not times_s or any(not before < after for before, after in pairwise(times_s)):
            raise BadInputError(f"The usage of {self.name!r} has no times, or falling ones.")
        for field in _SHARES:
            values = getattr(self, field)
            if values is None:
                continue
            if len(values) != len(times_s):
                raise BadInputError(f"{self.name!r} has {len(values)} {field} for {len(times_s)} times.")
            wrong = next((value for value in values if not (isfinite(value) and 0 <= value <= 1)), None)
            if wrong is not None:
                raise BadInputError(f"A {field} of {self.name!r} is {wrong}.", remedy="Use 0 to 1.")

    @property
    def length_s(self) -> float:
        """How long the series is (s), with a typical bin after the last time."""
        times_s = self.times_s
        return (times_s[-1] - times_s[0]) * len(times_s) / max(1, len(times_s) - 1)

    def _bin(self, now_s: float) -> int:
        times_s = self.times_s
        if self.repeats and len(times_s) > 1:
            now_s = times_s[0] + (now_s - times_s[0]) % self.length_s
        return max(0, bisect_right(times_s, now_s) - 1)

    def servers_needed(self, now_s: float) -> int:
        """Return how many servers inference is taken to need now: the larger of usage as far as it is known
        and of what is believed.
        """
        at = self._bin(now_s)
        share = (self.usage if self.seen_usage is None else self.seen_usage)[at]
        if self.believed is not None:
            share = max(share, self.believed[at])
        return share_of_servers(share, self.servers)

    def servers_in_use(self, from_s: float, until_s: float) -> Iterator[tuple[float, int]]:
        """Iterate over the servers that inference uses, whole ones: (from when on, servers), each until the
        next.
        """
        times_s = self.times_s
        at, again_s = self._bin(from_s), 0.0
        if self.repeats and len(times_s) > 1:
            again_s = (from_s - times_s[0]) // self.length_s * self.length_s
        yield from_s, share_of_servers(self.usage[at], self.servers)
        while True:
            at += 1
            if at == len(times_s):
                if not self.repeats or at == 1:
                    return
                at, again_s = 0, again_s + self.length_s
            if times_s[at] + again_s >= until_s:
                return
            yield times_s[at] + again_s, share_of_servers(self.usage[at], self.servers)
