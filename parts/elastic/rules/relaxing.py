"""How far a queue's caps are relaxed: until its jobs use the queue's whole share (PCS, section 3.2)."""

from bisect import bisect_left
from collections.abc import Sequence

from parts.elastic.active_job import ActiveJob
from parts.elastic.rules.water_filling import NO_GPUS


def lowest_level(jobs: Sequence[ActiveJob], share: float) -> int:
    """Return the first level of `ActiveJob.caps` at which jobs use a share (GPUs), or the last level."""
    used = 0.0
    for job in jobs:
        used += job.caps[0]
        if share - used <= NO_GPUS:
            return 0
    if not jobs:
        return 0
    last = len(jobs[0].caps) - 1
    # Caps only grow from level to level.
    return min(last, bisect_left(range(last), True, key=lambda level: _used_up(jobs, share, level)))


def _used_up(jobs: Sequence[ActiveJob], share: float, level: int) -> bool:
    return share - sum([job.caps[level] for job in jobs]) <= NO_GPUS
