"""Levels of quantiles that a forecast is given for, and what is learned for each."""

from collections.abc import Sequence

import numpy as np

from foundation.errors import BadInputError
from lucid_models.model_format import Fields


def check_rising_levels(levels: Sequence[float], example: str) -> None:
    """Raise BadInputError for levels that do not rise between 0 and 1."""
    inside = all(0.0 < level < 1.0 for level in levels)
    if not levels or not inside or list(levels) != sorted(set(levels)):
        raise BadInputError(
            f"The quantiles {tuple(levels)} do not rise between 0 and 1.", remedy=f"Use {example}."
        )


def read_by_level(fields: Fields, name: str, most: float) -> dict[float, float]:
    """Read the field `name` (numbers from -most to most) by the field `quantiles`; both rise.

    Raises CorruptModelError.
    """
    levels = fields.numbers("quantiles", 0.0, 1.0, most=100)
    values = fields.numbers(name, -most, most, most=100)
    if levels.size != values.size or (np.diff(levels) <= 0).any() or (np.diff(values) < 0).any():
        raise fields.fail(name, "do not rise with the quantiles, one each")
    return dict(zip(levels.tolist(), values.tolist(), strict=True))
