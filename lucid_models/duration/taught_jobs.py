"""What a head of the duration model is learned from, and how it is boosted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lucid_models.boosting import BoostingSettings, affordable

Floats = NDArray[np.float64]

# Below so many jobs shapes are coarse, as they hold little: smoothing them by random rounds takes most of the
# time and helps no longer.
_FEW_JOBS = 2_000
_FEW_BINS = 64
_HOUR_S = 3_600.0


@dataclass(frozen=True)
class TaughtJobs:
    """What is learned from, by submission: features (jobs, names), log run times, ends (Unix s), and how much
    each job counts (`crowd_weights`; None: all the same).
    """

    rows: Floats
    logarithm: Floats
    end_s: Floats
    names: tuple[str, ...]
    weights: Floats | None = None

    def __len__(self) -> int:
        return len(self.logarithm)

    def blocks(self, count: int) -> NDArray[np.intp]:
        """The block of time of each job, of `count` with as many jobs each."""
        return np.arange(len(self), dtype=np.intp) * count // max(len(self), 1)

    def of(self, rows: NDArray[np.intp]) -> "TaughtJobs":
        """Some of the jobs."""
        weights = None if self.weights is None else self.weights[rows]
        return TaughtJobs(self.rows[rows], self.logarithm[rows], self.end_s[rows], self.names, weights)

    def with_features(self, features: NDArray[np.intp]) -> "TaughtJobs":
        """The same jobs, with some of their features."""
        names = tuple(self.names[feature] for feature in features)
        return TaughtJobs(self.rows[:, features], self.logarithm, self.end_s, names, self.weights)

    def split_by_end(self, share: float) -> tuple["TaughtJobs", "TaughtJobs"]:
        """The share of the jobs that ended first, and those that ended later; each by submission."""
        in_order = np.argsort(self.end_s, kind="stable")
        edge = int(share * len(self))
        return self.of(np.sort(in_order[:edge])), self.of(np.sort(in_order[edge:]))


def crowd_weights(
    owners: Sequence[str], virtual_clusters: Sequence[str], submit_s: Floats, until_s: float
) -> Floats:
    """How much each job counts, shape (jobs,): n^-1/2 where its owner submitted n jobs in the same hour of
    Unix time, by `until_s`.

    Jobs of one script are submitted in crowds, run alike and tell little more than one of them: without
    weights shapes learn the few scripts of the training days. Where a job's owner is unknown (""), its
    virtual cluster stands for it.
    """
    hours = (submit_s // _HOUR_S).tolist()
    whose = (
        (owner, "") if owner else ("", home) for owner, home in zip(owners, virtual_clusters, strict=True)
    )
    crowds = list(zip(whose, hours, strict=True))
    sizes = Counter(
        crowd for crowd, is_known in zip(crowds, (submit_s <= until_s).tolist(), strict=True) if is_known
    )
    weights: Floats = np.array([max(sizes[crowd], 1) for crowd in crowds], dtype=np.float64) ** -0.5
    return weights


@dataclass(frozen=True)
class HeadSettings:
    """How the head is boosted: at most `pairs` pairs of features, none of `unpaired`, in `blocks` of time."""

    boosting: BoostingSettings
    pairs: int
    blocks: int
    unpaired: tuple[str, ...]

    def boosting_of(self, jobs: TaughtJobs) -> BoostingSettings:
        """The settings that a table of this size is boosted with."""
        boosting = affordable(self.boosting, *jobs.rows.shape)
        if len(jobs) >= _FEW_JOBS:
            return boosting
        return replace(boosting, max_bins=min(boosting.max_bins, _FEW_BINS), smoothing_rounds=0)
