"""When Slurm's two schedulers run, on a clock of whole seconds.

The main scheduler runs when something happened, at the next full second, and no sooner than batch_sched_delay
after its last run; and every sched_interval for the whole queue. The backfill scheduler runs every
bf_interval.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

from cluster_logs.site.rules import SchedulerRules


@dataclass(slots=True)
class Cycles:
    """The times of both. `anchor_s`: when the scheduler was started; its cycles are counted from there."""

    rules: SchedulerRules
    anchor_s: float
    main_s: float = inf  # when the main scheduler is to look at what happened
    last_main_s: float = -inf
    last_backfill_s: float = -inf
    at_once_s: float = -inf
    # When either ran, if that is known; nothing is computed then.
    known_main_s: tuple[float, ...] = ()
    known_backfill_s: tuple[float, ...] = ()

    def catch_up(self, now_s: float) -> None:
        """Let the main scheduler have run where nothing waited: the next run keeps its distance."""
        if self.main_s < now_s:
            self.ran(self.main_s)
        interval_s = self.rules.interval_s
        latest_s = self.anchor_s + ceil((now_s - self.anchor_s) / interval_s - 1) * interval_s
        self.last_main_s = max(self.last_main_s, latest_s)

    def happened(self, now_s: float) -> None:
        """Something happened that the main scheduler is to look at."""
        if self.main_s == inf:
            self.main_s = max(float(ceil(now_s)), self.last_main_s + self.rules.batch_delay_s)

    def requeued(self, now_s: float) -> None:
        """A job was requeued: the main scheduler looks at once, which does not count as its last run."""
        if not (self.known_main_s or self.rules.defer):
            self.at_once_s = now_s

    def ran(self, now_s: float) -> None:
        """The main scheduler has run."""
        if self.at_once_s != now_s:
            self.last_main_s, self.main_s = now_s, inf
        self.at_once_s = -inf

    def backfilled(self, now_s: float) -> None:
        """The backfill scheduler has run."""
        self.last_backfill_s = now_s

    def main_is_due(self, now_s: float) -> bool:
        """Whether the main scheduler runs now."""
        if self.known_main_s and now_s <= self.known_main_s[-1]:
            return self.last_main_s != now_s and _holds(self.known_main_s, now_s)
        due = self._at(now_s, self.rules.interval_s) and self.last_main_s != now_s
        return due or now_s >= self.main_s or now_s == self.at_once_s

    def backfill_is_due(self, now_s: float) -> bool:
        """Whether the backfill scheduler runs now."""
        if self.known_backfill_s and now_s <= self.known_backfill_s[-1]:
            return self.last_backfill_s != now_s and _holds(self.known_backfill_s, now_s)
        due = self.rules.type == "backfill" and self._at(now_s, self.rules.bf_interval_s)
        return due and self.last_backfill_s != now_s

    def next_s(self, now_s: float) -> float:
        """When the next cycle of either is due."""
        times = []
        if self.known_main_s and now_s < self.known_main_s[-1]:
            times.append(_next_of(self.known_main_s, now_s))
        else:
            times.append(self._after(now_s, self.rules.interval_s))
            if self.main_s > now_s:
                times.append(self.main_s)
        if self.known_backfill_s and now_s < self.known_backfill_s[-1]:
            times.append(_next_of(self.known_backfill_s, now_s))
        elif self.rules.type == "backfill":
            times.append(self._after(now_s, self.rules.bf_interval_s))
        return min(times)

    def _at(self, now_s: float, interval_s: float) -> bool:
        return (now_s - self.anchor_s) % interval_s == 0

    def _after(self, now_s: float, interval_s: float) -> float:
        return self.anchor_s + ((now_s - self.anchor_s) // interval_s + 1) * interval_s


def _holds(times_s: Sequence[float], now_s: float) -> bool:
    at = bisect_left(times_s, now_s)
    return at < len(times_s) and times_s[at] == now_s


def _next_of(times_s: Sequence[float], now_s: float) -> float:
    """Return the next of these times; there is one."""
    return times_s[bisect_right(times_s, now_s)]
