"""How far completion times were from what was predicted, and how unfair they were (PCS, sections 2 and 5)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.results.metrics import mean, percentile

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0}


def prediction_error_pct(predicted_jct_s: Floats, jct_s: Floats) -> Floats:
    """Return Pred_err: 100 |true - predicted| / predicted completion time, shape (jobs,).

    A job that was predicted to take no time, and took none, has no error; if it took some the error is
    infinite.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        error = 100.0 * np.abs(jct_s - predicted_jct_s) / predicted_jct_s
    error_pct: Floats = np.where(jct_s == predicted_jct_s, 0.0, error)
    return error_pct


def unfairness(jct_s: Floats, fair_time_s: Floats) -> Floats:
    """Return max(0, completion time / fair time - 1), shape (jobs,): 0.5 is half as long again as is fair.

    `fair_time_s` is a job's run time on an equal share of the cluster.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(jct_s == fair_time_s, 1.0, jct_s / fair_time_s)
    excess: Floats = np.maximum(0.0, ratio - 1.0)
    return excess


def errors_of_jobs_pct(jobs: "pd.DataFrame") -> Floats:
    """Return Pred_err of each job of a table, shape (jobs,); NaN without a prediction, or where infinite."""
    if "predicted_end_time_s" not in jobs:
        return np.full(len(jobs), np.nan)
    predicted = (jobs["predicted_end_time_s"] - jobs["submit_time_s"]).to_numpy(dtype=np.float64)
    errors = prediction_error_pct(predicted, jobs["jct_s"].to_numpy(dtype=np.float64))
    return np.where(np.isfinite(errors), errors, np.nan)


def finite_errors_pct(jobs: "pd.DataFrame") -> Floats:
    """Return Pred_err of the completed jobs of a table; none of jobs without a prediction."""
    errors = errors_of_jobs_pct(jobs[jobs["state"] == "completed"])
    return errors[np.isfinite(errors)]


def prediction_summary(jobs: "pd.DataFrame") -> Mapping[str, float | int]:
    """Summarise the columns `predicted_end_time_s` and `fair_time_s` of completed jobs, where they are.

    Percentiles are by linear interpolation. Jobs without a prediction count in none of its figures
    (`predicted_jobs` says how many have one), and jobs of an infinite error in none of the errors.
    """
    done = jobs[jobs["state"] == "completed"]
    jct = done["jct_s"].to_numpy(dtype=np.float64)
    summary: dict[str, float | int] = {}
    if "predicted_end_time_s" in done:
        predicted = (done["predicted_end_time_s"] - done["submit_time_s"]).to_numpy(dtype=np.float64)
        errors = finite_errors_pct(done)
        late = jct - predicted
        finite_late = late[np.isfinite(late)]
        summary |= {
            "predicted_jobs": int(np.isfinite(predicted).sum()),
            "mean_pred_err_pct": mean(errors),
            **{f"{label}_pred_err_pct": percentile(errors, at) for label, at in PERCENTILES.items()},
            "max_pred_err_pct": float(errors.max()) if len(errors) else 0.0,
            # Rounding to a microsecond is no lateness.
            "later_than_predicted_pct": 100 * mean((finite_late > 1e-3).astype(np.float64)),
        }
    if "fair_time_s" in done:
        fair = done["fair_time_s"].to_numpy(dtype=np.float64)
        measured = unfairness(jct, fair)
        measured = measured[np.isfinite(measured)]
        summary |= {
            "mean_unfairness": mean(measured),
            **{f"{label}_unfairness": percentile(measured, at) for label, at in PERCENTILES.items()},
            "unfair_jobs_pct": 100 * mean((measured > 0).astype(np.float64)),
        }
    return summary
