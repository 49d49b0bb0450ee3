"""Upper quantiles that stay calibrated while usage drifts: offsets that follow their own misses.

A quantile q is the forecast plus c(q) x s. The scale s is an exponentially weighted mean of the absolute
errors, and c(q) is raised by STEP x q after a bin above the quantile and lowered by STEP x (1 - q) after one
below: quantile tracking (Gibbs and Candes, NeurIPS 2021; Angelopoulos et al., NeurIPS 2023, "conformal PID
control"). Over any stretch of T bins the share of misses differs from 1 - q by at most the change of c(q)
over the stretch divided by STEP x T, whatever the usage does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucid_models.series.windows import Floats

# A tenth of a day's bins is remembered: what errors are like changes with the hour.
SCALE_WEIGHT = 0.05
STEP = 0.2
# A series that never errs has quantiles all the same; usage is stated to a thousandth or so.
LEAST_SCALE = 1e-4
MOST_SCALES = 100.0


@dataclass(frozen=True)
class TrackerStart:
    """What a tracker begins with, from errors of bins that the forecast was not learned from.

    `scale`: the usual absolute error; `multiples`: by quantile, rising, how many of them it lies above the
    forecast.
    """

    scale: float
    multiples: Mapping[float, float]

    @classmethod
    def of_errors(cls, errors: Floats, quantiles: tuple[float, ...]) -> "TrackerStart":
        """From errors (usage less forecast) in the order of time, at least one."""
        scale = max(float(np.abs(errors).mean()), LEAST_SCALE)
        multiples = errors / _scales_before(np.abs(errors), np.ones(errors.size, dtype=np.bool_), scale)
        levels = np.quantile(np.clip(multiples, -MOST_SCALES, MOST_SCALES), quantiles)
        return cls(scale, dict(zip(quantiles, levels.tolist(), strict=True)))


def tracked_offsets(start: TrackerStart, errors: Floats, is_judged: NDArray[np.bool_]) -> dict[float, Floats]:
    """Offset of each quantile for each bin and the one after the last, by quantile, each (bins + 1,).

    `errors` (usage less forecast) of the bins in order; the offset of bin i is made of the errors before it,
    and only of those that are judged: a bin that was not measured teaches nothing. Quantiles do not cross.
    """
    levels = np.array(list(start.multiples), dtype=np.float64)
    multiples = np.array(list(start.multiples.values()), dtype=np.float64)
    scales = _scales_before(np.abs(errors), is_judged, start.scale, after=True)
    offsets = np.empty((errors.size + 1, levels.size))
    up, down = STEP * levels, STEP * (levels - 1.0)
    for row, (scale, error, judged) in enumerate(
        zip(scales[:-1].tolist(), errors.tolist(), is_judged.tolist(), strict=True)
    ):
        offsets[row] = multiples * scale
        if judged:
            multiples = multiples + np.where(error > offsets[row], up, down)
    offsets[-1] = multiples * scales[-1]
    rising = np.maximum.accumulate(offsets, axis=1)
    return {float(level): rising[:, position] for position, level in enumerate(levels)}


def _scales_before(
    sizes: Floats, is_judged: NDArray[np.bool_], first: float, *, after: bool = False
) -> Floats:
    """The scale before each bin, shape (bins,); `after`: also that after the last one, (bins + 1,)."""
    scales, scale = [], first
    for size, judged in zip(sizes.tolist(), is_judged.tolist(), strict=True):
        scales.append(scale)
        if judged:
            scale = max(scale + SCALE_WEIGHT * (size - scale), LEAST_SCALE)
    return np.array([*scales, scale] if after else scales)
