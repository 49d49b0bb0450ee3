"""What would have been said of each waiting job, moment by moment, by models of what was known before it."""

import numpy as np
from numpy.typing import NDArray

from foundation.progress import Progress, silent
from lucid_models.groups import Codes, Floats
from parts.waits.model.calibration import LEVELS, WaitOffsets, offsets_of_errors
from parts.waits.model.fitting import Learner, WaitSettings, fit_before
from parts.waits.model.usual_waits import USUAL_WAIT, leaning
from parts.waits.model.wait_table import WaitTable

RETRAIN_MOMENTS = 3  # a model is trained anew after so many
# So many moments before those that are forecast calibrate the first ones, at most the later half.
_CALIBRATION_MOMENTS = 9


def first_calibrating(moments: int) -> int:
    """From which of the first `moments` moments on forecasts are made to calibrate those after them."""
    return max(moments - _CALIBRATION_MOMENTS, (moments + 1) // 2)


def walk_forward(
    table: WaitTable,
    learner: Learner,
    settings: WaitSettings,
    first: int,
    progress: Progress = silent,
) -> Floats:
    """The forecast of each row from the moment numbered `first` on, NaN before, shape (rows,), leaning on
    usual waits.

    The model is trained anew every `RETRAIN_MOMENTS` moments. Raises BadInputError where too little
    lies before the first.
    """
    said = np.full(table.moment.size, np.nan)
    usual = table.matrix[:, table.features.names.index(USUAL_WAIT)]
    moments = table.moments_s.size
    for begin in range(first, moments, RETRAIN_MOMENTS):
        progress(begin, moments, "forecasting past moments")
        predict = fit_before(table, begin, settings, learner)
        rows = (table.moment >= begin) & (table.moment < begin + RETRAIN_MOMENTS)
        said[rows] = leaning(predict(table.matrix[rows]), usual[rows])
    return said


def calibrated(table: WaitTable, said: Floats, first: int) -> Floats:
    """The quantiles of each row, shape (rows, levels) of LEVELS, as logarithms; NaN before moment `first`.

    `said`: what `walk_forward` gave. Offsets of a moment are made of earlier errors, as known at it.
    """
    quantiles = np.full((said.size, len(LEVELS)), np.nan)
    for moment in range(first, table.moments_s.size):
        rows = table.moment == moment
        offsets = offsets_at(table, said, moment)
        quantiles[rows] = said[rows, None] + offsets.of(table.partition[rows].tolist())
    return quantiles


def offsets_at(table: WaitTable, said: Floats, moment: int) -> WaitOffsets[int]:
    """The offsets that were known at the moment numbered `moment` (beyond the last: all that is known)."""
    waits, is_over = table.waits(table.known_at_s(moment))
    rows: NDArray[np.bool_] = (table.moment < moment) & ~np.isnan(said)
    ages: Codes = moment - table.moment[rows]
    return offsets_of_errors(
        waits[rows] - said[rows], is_over[rows], table.partition[rows], ages.astype(np.float64)
    )
