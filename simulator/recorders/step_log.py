"""Values that change at moments, written down as they change."""

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class StepLog:
    """Whole numbers over time; of several changes at one moment the last stands."""

    def __init__(self, values: int) -> None:
        """There are so many values."""
        self._at_s = array("d")
        self._rows = tuple(array("l") for _ in range(values))

    def __bool__(self) -> bool:
        return bool(self._at_s)

    def note(self, now_s: float, values: Sequence[int]) -> None:
        """Write down what holds from now on."""
        if self._at_s and self._at_s[-1] == now_s:
            for row, value in zip(self._rows, values, strict=True):
                row[-1] = value
        else:
            self._at_s.append(now_s)
            for row, value in zip(self._rows, values, strict=True):
                row.append(value)

    def steps(self) -> list[NDArray[np.float64]]:
        """Return the moments (s), then each value from then on; equal lengths."""
        return [np.array(row, dtype=np.float64) for row in (self._at_s, *self._rows)]
