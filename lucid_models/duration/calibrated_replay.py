"""Lets the calibration of run times live through a log, so that each job's quantiles hold what was known."""

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.calibration import RunTimeCalibration
from lucid_models.duration.job_replay import JobStream
from lucid_models.duration.residual_hazards import LEVELS

Floats = NDArray[np.float64]

_SUBMISSION, _START, _END = range(3)


def offsets_at_submissions(
    calibration: RunTimeCalibration, stream: JobStream, said: Floats, *, until_s: float = np.inf
) -> Floats:
    """Offsets of each job's quantiles at its submission, shape (jobs, levels), while `calibration` lives
    through a log until `until_s`.

    `said`: quantiles of log run time without offsets, shape (jobs, levels); NaN for a job whose submission
    the calibration has seen: it only starts and ends (and its offsets are NaN). An event at the very moment
    of a submission is known to it.
    """
    offsets = np.full((len(stream.job_ids), len(LEVELS)), np.nan)
    times, kinds, whose = _events(stream, said, until_s)
    run_s, ran = stream.duration_s.tolist(), (~np.isnan(stream.duration_s)).tolist()
    clusters, owners, quantiles = stream.virtual_clusters, stream.owners, said.tolist()
    for at_s, kind, job in zip(times, kinds, whose, strict=True):
        job_id = stream.job_ids[job]
        if kind == _START:
            calibration.started(job_id, at_s)
        elif kind == _END and ran[job]:
            calibration.ended(job_id, at_s, run_s[job])
        elif kind == _END:
            calibration.withdrawn(job_id)
        else:
            calibration.look(at_s)
            offsets[job] = calibration.offsets(clusters[job], owners[job])
            calibration.submitted(job_id, at_s, clusters[job], owners[job], quantiles[job])
    return offsets


def _events(stream: JobStream, said: Floats, until_s: float) -> tuple[list[float], list[int], list[int]]:
    """Times, kinds and jobs of what happens, in turn."""
    submit_s = stream.submit_s
    ran = ~np.isnan(stream.duration_s)
    # A job without a known start runs from its submission on; clocks that disagree must not turn time back.
    start_s = np.where(np.isnan(stream.start_s) & ran, submit_s, stream.start_s)
    start_s = np.where(start_s < submit_s, submit_s, start_s)
    end_s = np.fmax(stream.end_s, np.fmax(start_s, submit_s))
    jobs = np.arange(submit_s.size)
    times = np.concatenate([submit_s, start_s, end_s])
    # What happens to a job at its very submission does so after it.
    early = np.concatenate([np.ones(jobs.size, dtype=np.bool_), start_s > submit_s, end_s > submit_s])
    kinds = np.repeat([_SUBMISSION, _START, _END], jobs.size)
    rank = np.where(kinds == _SUBMISSION, 1, np.where(early, 0, 2))
    happens = np.concatenate([~np.isnan(said).any(axis=1), ~np.isnan(start_s), ~np.isnan(stream.end_s)])
    whose = np.tile(jobs, 3)
    order = np.lexsort((kinds, whose, rank, times))
    order = order[happens[order] & (times[order] <= until_s)]
    return times[order].tolist(), kinds[order].tolist(), whose[order].tolist()
