"""What a forecaster of inference usage offers; models satisfy it by shape."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BIN_S = 300


class UsageForecast(Protocol):
    """The usage (share of the inference servers that are busy, 0..1) of the `BIN_S` seconds that follow."""

    @property
    def mean(self) -> float:
        """Return the mean of the next bin."""
        ...

    @property
    def quantiles(self) -> Mapping[float, float]:
        """Return, by quantile (0.5, 0.9, ...), that quantile of the next bin."""
        ...


class UsageForecaster(Protocol):
    """A forecast of inference usage, made of finished bins."""

    def forecast(self, usage: NDArray[np.float64], last_bin_start_s: float) -> UsageForecast:
        """Return what follows `usage`: one value a finished bin of `BIN_S` seconds, in 0..1.

        Shape (bins,), oldest first, gaps held. The newest bin began at `last_bin_start_s` (s since 1970).
        """
        ...
