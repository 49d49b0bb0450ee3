"""Lets the calibration of run times live through a log, so that each job's quantiles hold what was known."""

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.calibration import LEVELS, RunTimeCalibration
from lucid_models.duration.job_replay import JobStream

Floats = NDArray[np.float64]


def calibrate_causally(
    calibration: RunTimeCalibration, stream: JobStream, said: Floats, *, until_s: float = np.inf
) -> Floats:
    """Offsets of each job's quantiles at its submission, shape (jobs, levels), while `calibration` lives on.

    `said`: quantiles of log run time without offsets, shape (jobs, levels); NaN for a job whose submission
    the calibration has seen: it only ends (and its offsets are NaN). What happens after `until_s` does not
    happen; an end at the very moment of a submission is known to it.
    """
    submit_s, end_s = stream.submit_s, np.fmax(stream.end_s, stream.submit_s)
    submissions = np.flatnonzero(~np.isnan(said).any(axis=1) & (submit_s <= until_s))
    ends = np.flatnonzero(~np.isnan(stream.duration_s) & ~np.isnan(stream.end_s) & (end_s <= until_s))
    whose = np.concatenate([ends, submissions])
    times = np.concatenate([end_s[ends], submit_s[submissions]])
    # A job that ends at its very submission does so after it.
    rank = np.concatenate([np.where(end_s[ends] > submit_s[ends], 0, 2), np.ones(submissions.size)])
    order = np.lexsort((whose, rank, times))
    offsets = np.full((len(stream.job_ids), len(LEVELS)), np.nan)
    is_end = order < ends.size
    for job, ended in zip(whose[order].tolist(), is_end.tolist(), strict=True):
        if ended:
            calibration.ended(stream.job_ids[job], float(stream.duration_s[job]))
        else:
            virtual_cluster = stream.virtual_clusters[job]
            offsets[job] = calibration.offsets.of(virtual_cluster)
            calibration.submitted(stream.job_ids[job], virtual_cluster, said[job].tolist())
    return offsets
