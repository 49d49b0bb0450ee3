"""Which jobs are alike to advice on limits, of jobs that come one by one (`limit_table`: of a table)."""

from collections.abc import Mapping
from typing import Any

from cluster_logs.job_facts import owner_of
from lucid_models.limits.advisor import LimitJob
from lucid_models.limits.limit_groups import CPU_JOBS, GPU_JOBS

# What makes two requests of an owner alike, and what makes them similar.
_ALIKE = ("name", "time_limit_s", "cpus", "gpus", "virtual_cluster", "qos")
_SIMILAR = ("time_limit_s", "cpus", "gpus")


def limit_job_of(job_id: str, facts: Mapping[str, Any]) -> LimitJob | None:
    """A job by its facts at submission (job_facts.py); None for one without a time limit, or of which is
    not known when it was submitted.
    """
    limit_s, submit_s = facts.get("time_limit_s"), facts.get("submit_time_s")
    if limit_s is None or not limit_s > 0 or submit_s is None:
        return None
    owner = owner_of(facts)
    group = GPU_JOBS if (facts.get("gpus") or 0) > 0 else CPU_JOBS
    likeness = tuple(
        (what, owner, *(facts.get(name) for name in names))
        for what, names in (("alike", _ALIKE), ("similar", _SIMILAR))
    )
    return LimitJob(job_id, owner, group, float(submit_s), float(limit_s), (*likeness, (owner, group)))
