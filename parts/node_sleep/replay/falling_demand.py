"""Whether demand is low enough for nodes to sleep: the rule of Helios (SC '21, section 4.3)."""

import numpy as np
from numpy.typing import NDArray

from parts.node_sleep.replay.settings import SleepSettings


def has_fallen(settings: SleepSettings, busy: NDArray[np.float64]) -> bool:
    """Whether the newest bin lies below the mean of the `past_bins` before it by `past_threshold`."""
    past = busy[-1 - settings.past_bins : -1]
    return len(busy) > settings.past_bins and float(past.mean()) - float(busy[-1]) >= settings.past_threshold


def stays_low(settings: SleepSettings, newest: float, near_mean: float, far_mean: float) -> bool:
    """Whether the next `near_bins` bins lie below the newest by `forecast_threshold`, and no rise follows."""
    return newest - near_mean >= settings.forecast_threshold and near_mean >= far_mean
