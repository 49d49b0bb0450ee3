"""What a policy is told of sharing GPUs: what a release's packing model predicts of jobs, and of pairs."""

from dataclasses import dataclass
from typing import Protocol

from lucid_models.packing.pairwise import PairwiseScorer
from simulator.workload.colocation import BelievedPairs
from simulator.workload.job import JobProfile


class PairModel(Protocol):
    """What is read of a packing model."""

    @property
    def pairwise(self) -> PairwiseScorer | None:
        """Its pairwise part, if it has one."""


@dataclass(frozen=True)
class PredictedPairs:
    """A pairwise packing model as the simulator's `ColocationModel`.

    The model says how fast the slower one of two jobs is, not which of them that is. Here it is the first
    one, so only the mean and the lower of the two speeds mean anything.
    """

    scorer: PairwiseScorer

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return the lower and the higher speed, relative to running alone."""
        mean, low = self.scorer.predict_one(_metrics(first), _metrics(second))
        return low, 2.0 * mean - low


def believed_pairs(packing: PairModel) -> BelievedPairs | None:
    """Return what a packing model predicts of pairs; None: it gives Sharing Scores only."""
    scorer = packing.pairwise
    return None if scorer is None else BelievedPairs(PredictedPairs(scorer), scorer.mean_speed_min)


def _metrics(profile: JobProfile | None) -> tuple[float, float, float, float]:
    """In the order of packing.model.FEATURES; NaN where unknown."""
    if profile is None:
        return (float("nan"),) * 4
    return (*profile.belief, float(profile.amp))
