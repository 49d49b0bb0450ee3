"""How many jobs of each week end within their P50 and P90, without and with the online calibration.

Jobs count in the week of their submission. A wide interval covers without telling anything, so its width
stands beside: how many times P50 the P90 of a job is, in the median.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.duration.model import WorkloadEstimateModel, epoch_seconds
from lucid_models.evaluation.duration import DurationTest
from lucid_models.evaluation.measures import Floats, Row
from lucid_models.series.windows import DAY_S

WEEK_S = 7 * DAY_S
# A share of 90 % of fewer jobs lies outside of 88 to 92 % by chance in a third of the weeks.
LEAST_JOBS_OF_A_WEEK = 200
WITHIN = {"coverage_p50": (0.48, 0.52), "coverage_p90": (0.88, 0.92)}


@dataclass(frozen=True)
class SaidQuantiles:
    """P50 and P90 of jobs, in seconds, shape (jobs,) each."""

    p50_s: Floats
    p90_s: Floats


def coverage_of_test(test: DurationTest, model: WorkloadEstimateModel, features: pd.DataFrame) -> list[Row]:
    """Rows of `coverage_by_week` of a test's jobs, by the model and features that measuring it gave."""
    p50_s, p90_s, _ = model.scorer.estimate_rows(features.to_numpy())
    return coverage_by_week(
        epoch_seconds(test.test, "submit_time"),
        test.truth,
        SaidQuantiles(p50_s, p90_s),
        SaidQuantiles(test.said["ebm"][0], test.p90_s),
    )


def coverage_by_week(
    submit_s: Floats, truth_s: Floats, before: SaidQuantiles, after: SaidQuantiles
) -> list[Row]:
    """Rows {week, jobs, coverage_p50, coverage_p90, width, and the same with `_before`} by seven days.

    `week` counts from the first submission on; the last one may be short. `before` is without calibration,
    `after` with it.
    """
    week = ((submit_s - submit_s.min()) // WEEK_S).astype(np.int64)
    rows: list[Row] = []
    for number in np.unique(week).tolist():
        inside = week == number
        row: Row = {"week": int(number) + 1, "jobs": int(inside.sum())}
        for ending, said in (("", after), ("_before", before)):
            measured = _measured(truth_s[inside], said.p50_s[inside], said.p90_s[inside])
            row |= {f"{name}{ending}": value for name, value in measured.items()}
        rows.append(row)
    return rows


def outside(row: Row) -> list[str]:
    """The shares of a week with enough jobs that lie outside of WITHIN."""
    if row["jobs"] < LEAST_JOBS_OF_A_WEEK:
        return []
    return [name for name, (low, high) in WITHIN.items() if not low <= row[name] <= high]


def _measured(truth_s: Floats, p50_s: Floats, p90_s: Floats) -> dict[str, float]:
    within: tuple[NDArray[np.bool_], ...] = (truth_s <= p50_s, truth_s <= p90_s)
    return {
        "coverage_p50": float(within[0].mean()),
        "coverage_p90": float(within[1].mean()),
        "width": float(np.median(p90_s / p50_s)),
    }
