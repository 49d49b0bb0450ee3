"""Made-up training rows with the habits of the duration model's: what a table of any size is measured on.

Twenty features and the logarithm of a run time. Users recur with very unequal shares (Zipf) and have habits;
eight features are estimates of a job's habit from coarse to noisy, unknown the more often the noisier; four
are counts with tails so heavy that their mean does not exist; the rest are size, hour, weekday, time since
the last submission, time limit, utilisation, and two of little use. The target bends in most of them, jumps
where a value is unknown, has a product of two that no sum of shapes can hold, drifts over the year, and
carries noise that differs by user, with a heavy tail.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

FEATURES = 20
NAMES = tuple(
    [f"habit_{i}" for i in range(8)]
    + [f"count_{i}" for i in range(4)]
    + ["log_gpus", "hour", "day_of_week", "since_submission_s", "time_limit_s", "gpu_util_pct"]
    + ["normal", "slot"]
)
_CHUNK = 500_000
_HOURS_A_YEAR = 8_760

Floats = NDArray[np.float64]


def training_table(rows: int, seed: int) -> tuple[Floats, Floats]:
    """Features (rows, 20) and target (rows,), in the order of time over one year."""
    features, target = np.empty((rows, FEATURES)), np.empty(rows)
    edges = [*range(0, rows, _CHUNK), rows]
    for start, stop in pairwise(edges):
        rng = np.random.default_rng([seed, start])
        when = np.sort(rng.uniform(start / rows, stop / rows, stop - start))
        features[start:stop], target[start:stop] = _chunk(rng, when)
    return features, target


def _chunk(rng: np.random.Generator, when: Floats) -> tuple[Floats, Floats]:
    """The rows submitted at `when`, in years."""
    rows = when.size
    x = np.empty((rows, FEATURES))
    user = rng.zipf(1.6, rows) % 997
    habit = 6.0 + 2.2 * np.sin(user * 12.9898)
    for i in range(8):
        x[:, i] = habit + rng.standard_t(4, rows) * (0.3 + 0.35 * i)
        x[rng.random(rows) < 0.03 * (i + 1), i] = np.nan
    for i in range(8, 12):
        x[:, i] = np.floor(3 * rng.pareto(0.8, rows))
    x[:, 12] = np.log1p(rng.choice([1, 2, 4, 8, 16, 32], rows, p=[0.62, 0.14, 0.1, 0.1, 0.03, 0.01]))
    x[:, 13] = when * _HOURS_A_YEAR % 24
    x[:, 14] = np.floor(when * _HOURS_A_YEAR / 24) % 7
    x[:, 15] = np.where(rng.random(rows) < 0.2, np.nan, rng.exponential(3e4, rows))
    x[:, 16] = rng.choice([np.nan, 3_600, 14_400, 86_400, 604_800], rows, p=[0.5, 0.1, 0.15, 0.15, 0.1])
    x[:, 17] = np.where(rng.random(rows) < 0.4, np.nan, 100 * rng.beta(0.5, 0.5, rows))
    x[:, 18] = rng.normal(size=rows)
    x[:, 19] = rng.integers(0, 48, rows)

    def known(feature: int, otherwise: float) -> Floats:
        return np.nan_to_num(x[:, feature], nan=otherwise)

    limit, gap = known(16, 0.0), known(15, 0.0)
    target = (
        0.55 * habit
        + 0.75 * np.tanh(known(0, 6.0) - 6.0)
        + 0.12 * np.clip(known(1, 6.0), 2.0, 10.0)
        + 0.3 * np.log1p(np.minimum(x[:, 8], 50.0))
        - 0.4 * (x[:, 9] > 10)
        + 0.5 * x[:, 12] * (habit > 7.0)
        + 0.25 * np.sin(2 * np.pi * x[:, 13] / 24)
        - 0.3 * (x[:, 14] >= 5)
        + 0.15 * np.log1p(gap) * np.exp(-gap / 5e4)
        + np.where(limit > 0, 0.1 * np.log(np.maximum(limit, 1.0) / 3_600), 0.2)
        + 0.8 * ((known(17, 50.0) > 30) & (known(17, 50.0) < 70))
        + 0.3 * np.cos(3 * x[:, 18])
        + 0.4 * np.sin(6 * np.pi * when)
    )
    noise = rng.normal(size=rows) * (0.6 + 0.5 * (user % 3)) + 0.3 * rng.standard_t(3, rows)
    return x, target + noise
