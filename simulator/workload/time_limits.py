"""Time limits as backfilling knows them: what users asked for, and what stands in where they did not say."""

import numpy as np

from simulator.workload.workload import Workload


def with_limits_for_all(workload: Workload) -> tuple[Workload, tuple[str, ...]]:
    """Give a limit to the jobs of a log that lack one, and say for how many; a log without limits stays so.

    Such a job gets the longest limit (s) of its virtual cluster, else of the log: a scheduler that knows no
    limit has to reckon with the longest that there may be.
    """
    jobs = workload.columns
    limit_s, clusters = jobs.time_limit_s, jobs.virtual_cluster
    limited = ~np.isnan(limit_s)
    if not limited.any():
        return workload, ()
    longest_s = np.zeros(len(clusters.names))
    np.maximum.at(longest_s, clusters.codes[limited], limit_s[limited])
    longest_s[longest_s == 0] = longest_s.max()
    over = limited & ~jobs.withdrawn & (jobs.duration_s > limit_s)
    remarks = []
    if not limited.all():
        remarks.append(
            f"Jobs without a time limit: {(~limited).sum():,} of {len(workload):,}; backfilling takes the "
            "longest limit of their virtual cluster."
        )
    if over.any():
        remarks.append(
            f"Jobs that ran beyond their time limit in the log: {over.sum():,}; they are replayed as they "
            "ran."
        )
    if jobs.timed_out.any():
        remarks.append(
            f"Jobs that were stopped at their time limit: {jobs.timed_out.sum():,}; how long they would "
            "have run is unknown, and they are replayed as they ran."
        )
    if limited.all():
        return workload, tuple(remarks)
    for_all_s = np.where(limited, limit_s, longest_s[clusters.codes])
    return workload.with_columns(time_limit_s=for_all_s), tuple(remarks)


def without_limits(workload: Workload) -> Workload:
    """Return the same jobs with their estimates alone, so that backfilling goes by these."""
    return workload.with_columns(time_limit_s=np.full(len(workload), np.nan))
