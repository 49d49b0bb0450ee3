"""The heuristic of a scheduler that has no release: first in, first out.

Without a model and without history nothing is known of run times, so no order by size or run time can be
defended. FIFO is what a cluster does by default, starves no job, and cannot make matters worse than before.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def fifo_order(jobs: Sequence[Mapping[str, Any]]) -> list[int]:
    """Positions of the jobs (with submit_time_s) by submission; equal times stay in the queue's order."""
    return sorted(range(len(jobs)), key=lambda position: float(jobs[position]["submit_time_s"]))
