"""A wait model's forecasts on days after its training, beside the median wait of the partition.

The queue of each moment is told by the lake's job table, as the model learned it, and forecast from what was
known then; what came of it is what the table knows at the end of the days.
"""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from foundation.site import Site
from lucid_models.groups import Codes, Floats
from parts.waits.model.calibration import LEVELS
from parts.waits.model.evaluation import partition_medians
from parts.waits.model.job_queue import LEARNED_MOMENTS, MOMENT_EVERY_S, read_job_queue
from parts.waits.model.scorer import WaitScorer
from parts.waits.model.wait_table import WaitTable

NAIVE = "the median wait of the partition"


@dataclass(frozen=True)
class JudgedWaits:
    """Of each job and moment of a wait that is over by the end; arrays of shape (rows,).

    - `errors`, `naive_errors`: |log10| of the P50 (and a second) by the wait there was; of the naive one.
    - `moment_s`: when it was said (Unix s); `partition`: of the job (code).
    - `bounds_held`: whether the wait was within P90, also of waits that are longer than it and not over yet;
      `bounds_moment_s`: when that was said. Shape (bounds,).
    """

    errors: Floats
    naive_errors: Floats
    moment_s: Floats
    partition: Codes
    bounds_held: NDArray[np.bool_]
    bounds_moment_s: Floats

    @property
    def coverage(self) -> float | None:
        """Share of waits within P90; None without any."""
        return float(self.bounds_held.mean()) if self.bounds_held.size else None


def judge_waits(site: Site, scorer: WaitScorer, start: datetime, end: datetime) -> JudgedWaits:
    """Forecasts of the moments from `start` on, judged by what is known at `end`.

    The naive one is the median of the partition's waits at the moments before each, some weeks before
    `start` among them. Raises NotFoundError when the lake has no jobs of the cluster.
    """
    moments = int((end - start).total_seconds() // MOMENT_EVERY_S) + LEARNED_MOMENTS
    log = read_job_queue(site, end, moments)
    if not log.rows_kept:  # no job waited
        none: Floats = np.empty(0)
        return JudgedWaits(none, none, none, none.astype(np.intp), none.astype(np.bool_), none)
    table = WaitTable.of(log)
    is_judged = table.moments_s[table.moment] >= start.timestamp()
    first = int((table.moments_s < start.timestamp()).sum())
    waits, is_over = table.waits(end.timestamp())
    names = [log.partition_name(code) for code in table.partition[is_judged].tolist()]
    forecasts = np.full((table.moment.size, len(LEVELS)), np.nan)
    forecasts[is_judged] = np.log10(scorer.forecast_rows(table.matrix[is_judged], names) + 1.0)
    naive = partition_medians(table, first)
    rows = is_judged & is_over & ~np.isnan(naive[:, 0])
    bounds = is_judged & (is_over | (waits > forecasts[:, -1]))
    at_s = table.moments_s[table.moment]
    return JudgedWaits(
        np.abs(forecasts[:, 0] - waits)[rows],
        np.abs(naive[:, 0] - waits)[rows],
        at_s[rows],
        table.partition[rows],
        (waits <= forecasts[:, -1])[bounds],
        at_s[bounds],
    )
