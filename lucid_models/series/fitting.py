"""How every forecaster of a series is fitted: its span, its blocks of time, and the boosting of its bins."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.boosting import BoostedModel, BoostingSettings, boost
from lucid_models.series.windows import DAY_S, WEEK_S, Floats

LONGEST_SPAN_S = 4 * WEEK_S


def check_history(known_s: int, least_s: int, what: str) -> None:
    """Raise BadInputError for `known_s` seconds of `what` that are fewer than `least_s`."""
    if known_s < least_s:
        raise BadInputError(
            f"{known_s / DAY_S:.2f} days of {what} are too short to learn from.",
            remedy=f"Give at least {least_s // DAY_S} days.",
        )


def longest_span_s(known_s: int) -> int:
    """The longest span that features of a history of `known_s` seconds may read."""
    # A span longer than half the history would be missing in most rows.
    return min(known_s // 2, LONGEST_SPAN_S)


class BinClock(NamedTuple):
    """When bins are: the first begins at `first_bin_s` (Unix time, s), local time is `utc_offset_s` later."""

    first_bin_s: int
    bin_s: int
    utc_offset_s: int

    def local_days(self, bins: NDArray[np.intp]) -> NDArray[np.intp]:
        """The number of the local day of each bin."""
        local_s = self.first_bin_s + self.utc_offset_s + self.bin_s * bins.astype(np.int64)
        return (local_s // DAY_S).astype(np.intp)


def boost_bins(
    rows: NDArray[np.intp],
    matrix: Floats,
    target: Floats,
    names: Sequence[str],
    settings: BoostingSettings,
    clock: BinClock,
    weights: Floats | None = None,
) -> BoostedModel:
    """Fit an additive model to the bins `rows` of a series, validated on whole blocks of time.

    `rows` ascend; `matrix` of shape (rows, len(names)), `target` and `weights` of shape (rows,). Errors as
    in `boost`.
    """
    blocks = time_blocks(clock.local_days(rows), rows, settings.bags)
    return boost(matrix, target, names, blocks, settings, weights)


def time_blocks(days: NDArray[np.intp], rows: NDArray[np.intp], bags: int) -> NDArray[np.intp]:
    """Blocks of time for a model's bags: whole weeks, or shorter ones when the history has fewer weeks than
    bags.

    `days` numbers the local day of each row, `rows` its bin; both ascend.
    """
    # Neighbouring bins are nearly copies of one another: validated on rows drawn at random, boosting would
    # stop far too late (Roberts et al., Ecography 2017, on block cross-validation).
    weeks = (days - days[0]) // 7
    if np.unique(weeks).size >= bags:
        return np.asarray(weeks, dtype=np.intp)
    if np.unique(days).size >= 2 * bags:
        return np.asarray(days - days[0], dtype=np.intp)
    return np.asarray((rows - rows[0]) * (2 * bags) // (rows[-1] - rows[0] + 1), dtype=np.intp)
