"""Estimates from the user's history (Tsafrir, Etsion, Feitelson, TPDS '07): no model, hard to beat.

A user's next job is taken to run as long as the mean of the user's last two jobs that had ended by its
submission. Where that is not known, the estimate falls back to

1. the mean of the ended jobs with the same GPU demand (what Lucid does for a new user, section 3.4),
2. the mean of all ended jobs,
3. one hour, while nothing has ended yet.

In a log without users, "the user" is the pair of virtual cluster and GPU demand.
"""

from collections import deque
from collections.abc import Hashable

LAST_JOBS = 2
NOTHING_KNOWN_S = 3600.0


class UserHistory:
    """What has ended so far, and what follows from it for a user's next job."""

    def __init__(self) -> None:
        self._last: dict[Hashable, deque[float]] = {}
        self._by_gpus: dict[int, tuple[float, int]] = {}
        self._total_s, self._count = 0.0, 0

    def ended(self, user: str | None, virtual_cluster: str, gpus: int, duration_s: float) -> None:
        """Learn that a job has ended, having run for `duration_s`."""
        key = _user_key(user, virtual_cluster, gpus)
        self._last.setdefault(key, deque(maxlen=LAST_JOBS)).append(duration_s)
        sum_s, jobs = self._by_gpus.get(gpus, (0.0, 0))
        self._by_gpus[gpus] = (sum_s + duration_s, jobs + 1)
        self._total_s, self._count = self._total_s + duration_s, self._count + 1

    def of_user(self, user: str | None, virtual_cluster: str, gpus: int) -> float | None:
        """Return the mean run time (s) of the user's last two ended jobs; None before the first has ended."""
        mine = self._last.get(_user_key(user, virtual_cluster, gpus))
        return sum(mine) / len(mine) if mine else None

    def estimate_s(self, user: str | None, virtual_cluster: str, gpus: int) -> float:
        """Return the estimated run time (s) of a job, by the rule or its fall-backs."""
        mine = self.of_user(user, virtual_cluster, gpus)
        if mine is not None:
            return mine
        if gpus in self._by_gpus:
            sum_s, jobs = self._by_gpus[gpus]
            return sum_s / jobs
        return self._total_s / self._count if self._count else NOTHING_KNOWN_S


def _user_key(user: str | None, virtual_cluster: str, gpus: int) -> Hashable:
    return ("user", user) if user is not None else ("demand", virtual_cluster, gpus)
