"""Sums of floats that are the same on every Python."""

import operator
from collections.abc import Iterable
from functools import reduce


def add_in_order(values: Iterable[float], start: float = 0.0) -> float:
    """Add from left to right, rounded at each step, as NumPy adds array to array.

    The built-in `sum` makes good what rounding loses from Python 3.12 on: its results differ from those of
    3.11 in the last digits.
    """
    return reduce(operator.add, values, start)
