"""Service that users got, worth half as much after each half-life (Slurm's PriorityDecayHalfLife).

All usage decays alike, so instead of letting the old fade, the new is counted dearer: a GPU second at time t
weighs 2^(t / half-life). The user with more usage is then seen without touching any past, and a running job
costs nothing between its start and its end.
"""

from collections.abc import Hashable, Iterable
from math import exp2, log

REBASE_HALF_LIVES = 200.0  # 2^200 is far from what a float holds, and so is 2^-200 from what matters


class DecayedUsage:
    """Decayed GPU seconds by user; jobs that run count as they run."""

    def __init__(self, half_life_s: float) -> None:
        self.half_life_s = half_life_s
        self._origin_s = 0.0
        self._past: dict[Hashable, float] = {}  # plus `_gpus` times the integral: weighted GPU-s
        self._gpus: dict[Hashable, int] = {}  # in use

    def _weighted_s(self, at_s: float) -> float:
        """The integral of 2^(t / half-life), in seconds of the origin's worth; the origin moves when due."""
        if at_s - self._origin_s > REBASE_HALF_LIVES * self.half_life_s:
            shrink = exp2((self._origin_s - at_s) / self.half_life_s)
            self._past = {user: past * shrink for user, past in self._past.items()}
            self._origin_s = at_s
        return self.half_life_s / log(2) * exp2((at_s - self._origin_s) / self.half_life_s)

    def start(self, user: Hashable, gpus: int, at_s: float) -> None:
        """Count from `at_s` on that the user holds so many more GPUs."""
        weighted_s = self._weighted_s(at_s)
        self._past[user] = self._past.get(user, 0.0) - gpus * weighted_s
        self._gpus[user] = self._gpus.get(user, 0) + gpus

    def stop(self, user: Hashable, gpus: int, at_s: float) -> None:
        """Count from `at_s` on that the user holds so many GPUs fewer."""
        weighted_s = self._weighted_s(at_s)
        self._past[user] += gpus * weighted_s
        self._gpus[user] -= gpus

    def comparable(self, users: Iterable[Hashable], now_s: float) -> dict[Hashable, float]:
        """Return by user what is proportional to their usage at `now_s`; 0 for users that never ran."""
        weight_s = self._weighted_s(now_s)
        past, gpus = self._past, self._gpus
        return {user: past[user] + gpus[user] * weight_s if user in past else 0.0 for user in users}

    def of(self, user: Hashable, now_s: float) -> float:
        """Return a user's usage (GPU-s), decayed until now."""
        weighted = self.comparable((user,), now_s)[user]
        return max(0.0, weighted * exp2((self._origin_s - now_s) / self.half_life_s))
