"""Time limits as backfilling knows them: what users asked for, and what stands in where they did not say."""

from collections import defaultdict
from dataclasses import replace

from simulator.job import Job
from simulator.workload import Workload


def with_limits_for_all(workload: Workload) -> tuple[Workload, tuple[str, ...]]:
    """Give a limit to the jobs of a log that lack one, and say for how many; a log without limits stays so.

    Such a job gets the longest limit (s) of its virtual cluster, else of the log: a scheduler that knows no
    limit has to reckon with the longest that there may be.
    """
    limited = [job for job in workload.jobs if job.time_limit_s is not None]
    if not limited:
        return workload, ()
    longest_s: defaultdict[str, float] = defaultdict(float)
    for job in limited:
        longest_s[job.virtual_cluster] = max(longest_s[job.virtual_cluster], job.time_limit_s or 0.0)
    of_all_s = max(longest_s.values())

    def limited_job(job: Job) -> Job:
        if job.time_limit_s is not None:
            return job
        return replace(job, time_limit_s=longest_s[job.virtual_cluster] or of_all_s)

    without, over = len(workload) - len(limited), sum(_ran_over(job) for job in limited)
    remarks = []
    if without:
        remarks.append(
            f"Jobs without a time limit: {without:,} of {len(workload):,}; backfilling takes the longest "
            "limit of their virtual cluster."
        )
    if over:
        remarks.append(
            f"Jobs that ran beyond their time limit in the log: {over:,}; they are replayed as they ran."
        )
    stopped = sum(job.timed_out for job in workload.jobs)
    if stopped:
        remarks.append(
            f"Jobs that were stopped at their time limit: {stopped:,}; how long they would have run is "
            "unknown, and they are replayed as they ran."
        )
    jobs = tuple(map(limited_job, workload.jobs)) if without else workload.jobs
    return replace(workload, jobs=jobs), tuple(remarks)


def without_limits(workload: Workload) -> Workload:
    """Return the same jobs with their estimates alone, so that backfilling goes by these."""
    return replace(workload, jobs=tuple(replace(job, time_limit_s=None) for job in workload.jobs))


def _ran_over(job: Job) -> bool:
    return not job.withdrawn and job.time_limit_s is not None and job.duration_s > job.time_limit_s
