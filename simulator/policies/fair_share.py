"""Fair share: the user that has used least of its share goes first, as on Slurm sites.

Slurm's multifactor priority with its fair-share factor 2^(-usage / share): a user's usage are the GPU seconds
of their jobs, running ones included, decayed with a half-life. A virtual cluster is an account with nodes of
its own, so users compete inside it, and only the order of their factors matters: that is the order of usage /
share, in the classic algorithm as in Slurm's fair tree. A user's own jobs are served in the order of
submission. Gaps are backfilled by EASY (`simulator/mechanisms/backfill.py`), as Slurm does by default.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from math import exp2, log

from foundation.errors import BadInputError
from simulator.actions import Action
from simulator.job_view import JobView
from simulator.mechanisms.backfill import Backfill, Beliefs, Rank
from simulator.mechanisms.backfilling_policy import BackfillingPolicy
from simulator.snapshot import NodePool, Snapshot

DAY_S = 86_400.0
REBASE_HALF_LIVES = 200.0  # 2^200 is far from what a float holds, and so is 2^-200 from what matters


class DecayedUsage:
    """GPU seconds by user, worth half as much after each half-life (Slurm's PriorityDecayHalfLife).

    All usage decays alike, so instead of letting the old fade, the new is counted dearer: a GPU second at
    time t weighs 2^(t / half-life). The user with more usage is then seen without touching any past, and a
    running job costs nothing between its start and its end.
    """

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


@dataclass(frozen=True)
class FairShareSettings:
    """Settings of fair share.

    `half_life_s`: after so long, usage counts half (Slurm's PriorityDecayHalfLife, 7 days by default).
    `shares`: the shares of users that have others than 1, by name.
    """

    half_life_s: float = 7 * DAY_S
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.half_life_s < float("inf"):
            raise BadInputError(f"half_life_s is {self.half_life_s!r}.", remedy="Use a positive number of s.")
        for user, share in self.shares.items():
            if not 0 < share < float("inf"):
                raise BadInputError(f"The share of {user!r} is {share!r}.", remedy="Use a positive number.")


class FairShare(BackfillingPolicy):
    """The user with the least decayed usage per share first, with EASY backfilling; no preemption."""

    needs_estimates = True
    reads_profiles = False
    Settings = FairShareSettings

    def __init__(self, settings: FairShareSettings | None = None) -> None:
        self.settings = settings or FairShareSettings()
        super().__init__()

    def begin_anew(self) -> None:
        """Begin without usage."""
        self._books: dict[str, Charges] = {}
        super().begin_anew()

    def backfill(self) -> Backfill:
        """Believe what users asked for; users are ranked when a decision is due."""
        return Backfill(lambda job: job.request_s, group_of=lambda job: job.job.user)

    def history(self) -> "tuple[dict[str, Charges], Beliefs]":
        """Return what the users of each pool have used, and what is believed of jobs."""
        return self._books, self._backfill.beliefs()

    def resume(
        self, pools: Mapping[str, NodePool], history: "tuple[dict[str, Charges], Beliefs] | None"
    ) -> None:
        """Go on counting; without `history`, users have used what their running jobs used."""
        self._books, beliefs = history or ({}, {})
        self._backfill.resume(pools, beliefs)

    def observe_end(self, job: JobView, now_s: float) -> None:
        """Stop counting a job's GPUs."""
        super().observe_end(job, now_s)
        book = self._books.get(job.pool)
        if book is not None and job in book.charged:
            book.stop(job, now_s)

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Start the jobs of the user that used least, then backfill, in each changed pool."""
        actions: list[Action] = []
        now_s = snapshot.now_s
        for pool in snapshot.changed:
            book = self._books.get(pool.name)
            if book is None:
                book = self._books[pool.name] = Charges(DecayedUsage(self.settings.half_life_s))
            book.follow(pool, now_s)
            starts = self._backfill.decide(pool, now_s, self._rank(book.usage, now_s))
            for start in starts:
                book.start(start.job, now_s)
            actions += starts
        return actions

    def _rank(self, usage: DecayedUsage, now_s: float) -> Rank:
        """Rank users by usage per share; those that never ran are equal, and first."""
        shares = self.settings.shares

        def rank(users: Iterable[Hashable]) -> Mapping[Hashable, float]:
            used = usage.comparable(users, now_s)
            return (
                {user: gpu_s / shares.get(str(user), 1.0) for user, gpu_s in used.items()} if shares else used
            )

        return rank


@dataclass
class Charges:
    """What the users of a pool have used, and the jobs that count now; all unknown users are one."""

    usage: DecayedUsage
    charged: dict[JobView, None] = field(default_factory=dict)

    def start(self, job: JobView, at_s: float) -> None:
        """Count a job from `at_s` on."""
        self.charged[job] = None
        self.usage.start(job.job.user, job.gpus, at_s)

    def stop(self, job: JobView, at_s: float) -> None:
        """Count a job until `at_s`."""
        del self.charged[job]
        self.usage.stop(job.job.user, job.gpus, at_s)

    def follow(self, pool: NodePool, now_s: float) -> None:
        """Count what runs, however it came to run or stopped."""
        if len(self.charged) != len(pool.running):
            for job in [job for job in self.charged if job not in pool.running]:
                self.stop(job, now_s)
            for job in pool.running:
                if job not in self.charged:
                    self.start(job, job.start_time_s)
