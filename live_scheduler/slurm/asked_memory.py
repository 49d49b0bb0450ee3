"""What a job asked for of memory, and what Slurm says in its place."""

from collections.abc import Mapping
from dataclasses import replace

from cluster_logs.slurm_words import is_memory_of_whole_nodes
from live_scheduler.cluster_state import LiveJob

_FACT = "requested_memory_mib"


def as_asked_for(job: LiveJob, least_mib: Mapping[str, float]) -> LiveJob:
    """Return the job without memory that it did not ask for; `least_mib` is that of the smallest node of each
    partition.
    """
    memory_mib = job.other_facts.get(_FACT)
    if memory_mib is None:
        return job
    if not is_memory_of_whole_nodes(float(memory_mib), job.nodes or 1, least_mib.get(job.partition)):
        return job
    return replace(job, other_facts={name: fact for name, fact in job.other_facts.items() if name != _FACT})
