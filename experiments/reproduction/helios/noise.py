"""Estimates for Philly, which has neither users nor names: the true run time with Helios' errors.

Section 4.2.3 draws priorities "with a similar error distribution" as its estimates have; the artifact shows
which: by how much of the run time an estimate is off, sign at random.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# (share of the jobs, least and highest error as a multiple of the run time)
ERRORS = ((0.1, 0.0, 0.1), (0.4, 0.1, 0.5), (0.2, 0.5, 1.0), (0.2, 1.0, 10.0), (0.1, 10.0, 100.0))


def helios_noise(durations_s: Floats, seed: int) -> Floats:
    """Return an estimate (s) of each job, shape (jobs,); half of the errors above 1 make one below 0."""
    rng = np.random.default_rng(seed)
    shares, least, highest = np.array(ERRORS).T
    band = rng.choice(len(ERRORS), size=len(durations_s), p=shares)
    error = rng.uniform(least[band], highest[band])
    sign = rng.choice((-1.0, 1.0), size=len(durations_s))
    estimates: Floats = durations_s * (1.0 + sign * error)
    return estimates
