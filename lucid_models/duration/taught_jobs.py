"""What a head of the duration model is learned from, and how it is boosted."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lucid_models.boosting import BoostingSettings, affordable

Floats = NDArray[np.float64]

# Below so many jobs shapes are coarse, as they hold little: smoothing them by random rounds takes most of the
# time and helps no longer.
_FEW_JOBS = 2_000
_FEW_BINS = 64


@dataclass(frozen=True)
class TaughtJobs:
    """What is learned from, by submission: features (jobs, names), log run times and ends (Unix s)."""

    rows: Floats
    logarithm: Floats
    end_s: Floats
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.logarithm)

    def blocks(self, count: int) -> NDArray[np.intp]:
        """The block of time of each job, of `count` with as many jobs each."""
        return np.arange(len(self), dtype=np.intp) * count // max(len(self), 1)

    def of(self, rows: NDArray[np.intp]) -> "TaughtJobs":
        """Some of the jobs."""
        return TaughtJobs(self.rows[rows], self.logarithm[rows], self.end_s[rows], self.names)

    def with_features(self, features: NDArray[np.intp]) -> "TaughtJobs":
        """The same jobs, with some of their features."""
        names = tuple(self.names[feature] for feature in features)
        return TaughtJobs(self.rows[:, features], self.logarithm, self.end_s, names)

    def split_by_end(self, share: float) -> tuple["TaughtJobs", "TaughtJobs"]:
        """The share of the jobs that ended first, and those that ended later; each by submission."""
        in_order = np.argsort(self.end_s, kind="stable")
        edge = int(share * len(self))
        return self.of(np.sort(in_order[:edge])), self.of(np.sort(in_order[edge:]))


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
