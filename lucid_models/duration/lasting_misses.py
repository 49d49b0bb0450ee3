"""A slow shift of each quantile of log run time, by how often jobs ended beyond it: what the residuals that
started jobs tell misses for weeks on end.

Those count a crowd of alike jobs as a few, hear of waiting jobs late, and are of their virtual cluster's last
jobs. Each leaves a bias of some points. Here every ended job counts as one, and a quantile q moves by a step
times (q - 1) where a job ended within it, by the step times q where it did not: it rests where a share q ends
within (quantile tracking; Angelopoulos, Candès and Tibshirani, "Conformal PID Control for Time Series
Prediction", NeurIPS 2023).
"""

from collections.abc import Sequence

from lucid_models.duration.residual_hazards import LEVELS

# Of log run time, one of each of LEVELS. P90 that misses by four points comes right within ten thousand jobs;
# P50, the estimate that orders queues, follows at a third of that.
STEPS = (0.0003, 0.001)
# Thousands of jobs that were submitted together may all miss: no more than the factor 1.65 either way.
MOST = 0.5


class LastingMisses:
    """`shifts` of log run time, one of each of LEVELS."""

    def __init__(self, shifts: Sequence[float] = (0.0,) * len(LEVELS)) -> None:
        self.shifts = tuple(shifts)

    def ended(self, told: Sequence[float], logarithm: float) -> None:
        """A job ended whose quantiles of log run time had been told, with offsets and shifts in them."""
        self.shifts = tuple(
            [
                min(max(shift + step * (level - (logarithm <= said)), -MOST), MOST)
                for shift, step, level, said in zip(self.shifts, STEPS, LEVELS, told, strict=True)
            ]
        )
