"""What a cluster is played forward from, as one value: its state, and what is believed of each run time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import erfc, exp, inf, isfinite, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from live_scheduler.cluster_state import ClusterState
from live_scheduler.live_settings import LiveSettings, Mode
from simulator.workload.colocation import BelievedPairs
from simulator.workload.job import JobProfile

Floats = NDArray[np.float64]

_NORMAL = NormalDist()
_inverse: Callable[[float], float] = _NORMAL.inv_cdf
Z90 = _NORMAL.inv_cdf(0.9)
# Of the power law beyond P90: half of the jobs that are so old run for half as long again, or longer.
_LONGEST_TAIL = log(2.0) / log(1.5)
# How alike the errors of estimates are (shares of the variance of their normal scores): of one user's jobs of
# one size, and, besides, of those that were submitted in the same hour. A batch runs longer, or shorter, than
# was believed as a whole. Measured on Philly's submissions in one virtual cluster: 0.46 for any two of six
# hours, 0.84 for two in a row within a minute.
ALIKE = (0.5, 0.3)
# A shorter remainder counts as an end right now.
_SHORTEST_S = 1.0


@dataclass(frozen=True, slots=True)
class RunTime:
    """What a release believes of a job's run time, in seconds; `limit_s`: it is ended then.

    A job that waits has a lognormal run time through both quantiles. A job that runs has run longer than some
    of that: what is left of the distribution counts. Beyond its P90 an estimate has shown that it does not
    know the job, and a lognormal's end would have the job stop at once. There the tail is a power law, whose
    remainder grows with the age of the job (half of such jobs run for at least half as long again).
    """

    p50_s: float
    p90_s: float
    limit_s: float = inf

    def __post_init__(self) -> None:
        if not (0 < self.p50_s <= self.p90_s and isfinite(self.p90_s) and self.limit_s > 0):
            raise BadInputError(f"{self} is no belief about a run time.", remedy="Use 0 < P50 <= P90 < inf.")

    @property
    def spread(self) -> float:
        """The standard deviation of log run time."""
        return log(self.p90_s / self.p50_s) / Z90

    def drawn(self, ranks: Floats, age_s: float | None = None) -> Floats:
        """Return the run times (s) at these ranks in (0, 1), of a job that has run for `age_s` if given.

        A job that runs beyond its limit ends at once.
        """
        shares: list[float] = ranks.tolist()
        if age_s is None or age_s <= 0:
            spread = self.spread
            run_times_s = [self.p50_s * exp(spread * _inverse(share)) for share in shares]
            return np.array(run_times_s).clip(max=self.limit_s)
        return self._beyond(shares, age_s).clip(max=self.limit_s).clip(min=age_s + _SHORTEST_S)

    def _beyond(self, shares: list[float], age_s: float) -> Floats:
        spread = self.spread
        if age_s >= self.p90_s or not spread:
            # As steep as the lognormal is at its P90, but never steeper than `_LONGEST_TAIL`.
            steepness = _NORMAL.pdf(Z90) / (0.1 * spread) if spread else inf
            power = -1.0 / min(steepness, _LONGEST_TAIL)
            if age_s < self.p90_s:  # no spread: it ends when it is believed to
                return np.full(len(shares), self.p50_s)
            return np.array([age_s * (1.0 - share) ** power for share in shares])
        surviving = _survival(log(age_s / self.p50_s) / spread)
        # The normal's upper end, for what is left of it may be little.
        return np.array([self.p50_s * exp(-spread * _inverse(surviving * (1.0 - share))) for share in shares])


def ranks_of(
    job_id: str,
    kin: Sequence[str],
    release: str,
    seed: int,
    samples: int,
    alike: Sequence[float] = ALIKE,
) -> Floats:
    """Return one rank in (0, 1) a play, shape (samples,): the same for the same names, release and seed.

    They are spread evenly: each 1/samples of the distribution is drawn once. Jobs of the same `kin`, one name
    for each share of `alike`, tend to be long, or short, in the same plays.
    """
    own = _random(f"job {job_id}", release, seed)
    drawn = sqrt(1.0 - sum(alike)) * own.standard_normal(samples)
    for name, share in zip(kin, alike, strict=True):
        drawn += sqrt(share) * _random(f"kin {name}", release, seed).standard_normal(samples)
    places: Floats = drawn.argsort().argsort() + own.random(samples)
    return np.clip(places / samples, 1e-9, 1.0 - 1e-9)


def kin_of(virtual_cluster: str, user: str | None, gpus: int, submit_time_s: float) -> tuple[str, str]:
    """Name those that a job is like: all of its user's of this size, and those of the same hour."""
    alike = f"{virtual_cluster}\0{user}\0{gpus}"
    return alike, f"{alike}\0{int(submit_time_s // 3_600)}"


def _random(name: str, release: str, seed: int) -> np.random.Generator:
    digest = blake2b(f"{seed}\0{release}\0{name}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest)))


def _survival(z: float) -> float:
    """The share of a standard normal that lies above `z`."""
    return 0.5 * erfc(z / sqrt(2.0))


SAMPLES = 64


@dataclass(frozen=True)
class ForecastInputs:
    """Everything that a forecast is made of.

    `run_times` are what the release believes of each job (one without is not played), `settings` those in
    force (with the policy), `profiles` what is known of jobs' needs, `believed_pairs` what the policy knows
    of pairs. `samples` at most; fewer for many jobs. `alike`: how much the errors of jobs that are alike have
    in common (`run_times.ALIKE`).
    """

    cluster: ClusterState
    run_times: Mapping[str, RunTime]
    settings: LiveSettings
    release: str
    profiles: Mapping[str, JobProfile] = field(default_factory=dict)
    believed_pairs: BelievedPairs | None = None
    seed: int = 0
    samples: int = SAMPLES
    alike: tuple[float, ...] = ALIKE

    @property
    def controls(self) -> bool:
        """Whether the live policy's order counts."""
        return self.settings.mode is Mode.CONTROL
