"""Run times of one size class: a given distribution over all jobs, yet predictable within a family.

A Gaussian copula joins the two. A job's score is

    score = sqrt(SHARED) x family score + sqrt(1 - SHARED) x own noise

and its run time is the class's quantile at that score. When the family scores, weighted by how often each
family submits, are standard normal, so is the job's score, and the class's distribution comes out exactly.
"""

import numpy as np
import numpy.typing as npt

from cluster_logs.synthetic.cluster_profiles import SizeClass

FloatArray = npt.NDArray[np.float64]

# Share of the variance of a job's score that its family explains.
SHARED = 0.80

_GRID = np.linspace(-6.0, 6.0, 2401)
_DENSITY = np.exp(-0.5 * _GRID**2)
_DENSITY /= _DENSITY.sum()
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(48)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class RunTimes:
    """The run-time distribution of a size class, its tail set so that the mean is the class's mean."""

    def __init__(self, size_class: SizeClass) -> None:
        self._class = size_class
        self._scores = np.array([score for score, _ in size_class.quantiles])
        self._logs = np.log([seconds for _, seconds in size_class.quantiles])
        self._tail = 0.0
        low, high = -1.5, 1.5
        for _ in range(60):
            self._tail = 0.5 * (low + high)
            if self._mean(_GRID, _DENSITY) < size_class.mean_s:
                low = self._tail
            else:
                high = self._tail
        if not np.isclose(self._mean(_GRID, _DENSITY), size_class.mean_s, rtol=1e-3):
            raise ValueError(f"no tail of {size_class.quantiles} has the mean {size_class.mean_s} s")
        grid = np.linspace(-4.0, 4.0, 161)
        own = np.sqrt(1.0 - SHARED) * _NODES
        self._family_grid = grid
        self._family_means = np.array([self._mean(np.sqrt(SHARED) * score + own, _WEIGHTS) for score in grid])

    def at(self, scores: FloatArray) -> FloatArray:
        """Return the run time in seconds at each standard normal score: whole seconds, at least 1."""
        beyond = np.maximum(scores - self._class.tail_from, 0.0)
        # The outermost stretches go on: their slopes carry the log run time beyond the last quantile.
        top = (self._logs[-1] - self._logs[-2]) / (self._scores[-1] - self._scores[-2])
        bottom = (self._logs[1] - self._logs[0]) / (self._scores[1] - self._scores[0])
        logs = np.interp(scores, self._scores, self._logs)
        logs += top * np.maximum(scores - self._scores[-1], 0.0)
        logs -= bottom * np.maximum(self._scores[0] - scores, 0.0)
        logs += self._tail * beyond
        seconds: FloatArray = np.clip(np.round(np.exp(logs)), 1.0, self._class.longest_s)
        return seconds

    def family_mean(self, family_scores: FloatArray) -> FloatArray:
        """Return the mean run time in seconds of jobs by the score of their family."""
        means: FloatArray = np.interp(family_scores, self._family_grid, self._family_means)
        return means

    def _mean(self, scores: FloatArray, weights: FloatArray) -> float:
        return float(self.at(scores) @ weights)


def standard_scores(raw: FloatArray, weights: FloatArray) -> FloatArray:
    """Return scores in the order of `raw` that are standard normal under the weights (weighted mid-ranks)."""
    order = np.argsort(raw, kind="stable")
    ranked = weights[order] / weights.sum()
    middle = np.cumsum(ranked) - 0.5 * ranked
    scores = np.empty_like(raw)
    scores[order] = normal_quantile(middle)
    # Few heavy families leave the tails thin; stretch them back to a variance of 1.
    spread = float(np.sqrt(np.sum(weights * scores**2) / weights.sum()))
    return scores / spread if spread > 0 else scores


_CDF = np.cumsum(_DENSITY) - 0.5 * _DENSITY


def normal_quantile(probabilities: FloatArray) -> FloatArray:
    """Return the standard normal score of each probability, within +-6."""
    scores: FloatArray = np.interp(probabilities, _CDF, _GRID)
    return scores


def normal_cdf(scores: FloatArray) -> FloatArray:
    """Return the standard normal probability below each score."""
    probabilities: FloatArray = np.interp(scores, _GRID, _CDF)
    return probabilities
