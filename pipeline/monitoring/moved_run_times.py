"""Virtual clusters with run times that have moved since the release learned, by the calibration's offsets and
the naive estimate.

Both follow what happens job by job (`lucid_models.duration.calibration`, `log_head`), so a change of habits
shows on the day on which it comes; a later day counts too, for statistics that have learned the new habit let
the offset come back.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.duration.calibration import RunTimeCalibration, virtual_cluster_of
from lucid_models.duration.residuals import LEVELS
from pipeline.monitoring.data import DAY_S

# Single jobs move an offset to and fro; a day's median beyond this factor was never seen on quiet logs.
LEAST_FACTOR = 2.0
_P90 = LEVELS.index(0.9)


@dataclass(frozen=True)
class MovedRunTimes:
    """A virtual cluster: its P90 of run times had to be `factor` times as long as when the release learned.

    `day`: the UTC day on which it was farthest off, `jobs`: what was submitted on it.
    """

    virtual_cluster: str
    day: str
    factor: float
    jobs: int


def moved_run_times(
    jobs: pd.DataFrame,
    submit_s: NDArray[np.float64],
    p90_moved: NDArray[np.float64],
    learned: RunTimeCalibration,
    least_jobs: int,
) -> tuple[MovedRunTimes, ...]:
    """By name, from how far log P90 had moved at submissions, shape (jobs,).

    `learned`: the calibration of the release. Days on which fewer than `least_jobs` jobs were submitted to a
    virtual cluster decide nothing.
    """
    names = [virtual_cluster_of({"virtual_cluster": name}) for name in jobs["virtual_cluster"]]
    base = np.array([learned.offsets(name)[_P90] for name in names])
    table = pd.DataFrame({"name": names, "day": submit_s // DAY_S, "moved": p90_moved - base})
    days = table.groupby(["name", "day"])["moved"].agg(["median", "size"]).reset_index()
    days = days[(days["size"] >= least_jobs) & (days["median"].abs() >= np.log(LEAST_FACTOR))]
    moved = []
    for name, part in days.groupby("name", sort=True):
        day = part.loc[part["median"].abs().idxmax()]
        date = datetime.fromtimestamp(float(day["day"]) * DAY_S, UTC).date().isoformat()
        moved.append(MovedRunTimes(str(name), date, float(np.exp(day["median"])), int(day["size"])))
    return tuple(moved)
