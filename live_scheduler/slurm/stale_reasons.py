"""What a waiting job waits for now, where Slurm's reason is of an earlier look at it.

slurmctld writes a job's reason when it looks at the job, which may be much later than what happens to it: one
that was told to start in an hour has still its old reason, one that may start now still BeginTime, and one
whose nodes are back is said to wait for them until it is its turn. A job that was left out for such a reason
would not get its turn for a long time.
"""

import re
from collections.abc import Collection
from dataclasses import replace

from cluster_logs.host_lists import expand_hosts
from live_scheduler.slurm.queue_reading import QueueRow

_BEGIN_TIME = "BeginTime"
_AWAY = re.compile(r"UnavailableNodes:(\S+)")


def as_of_now(row: QueueRow, at_s: float, there: Collection[str]) -> QueueRow:
    """Return the row with what its job waits for at `at_s`; `there` are the nodes that start jobs."""
    job = row.job
    if not job.waiting or job.held:
        return row
    waits_for = job.waits_for
    later = job.begin_time_s is not None and job.begin_time_s > at_s
    away = _AWAY.search(waits_for)
    nodes_back = away is not None and any(node in there for node in expand_hosts(away[1]))
    if later and not waits_for:
        waits_for = _BEGIN_TIME
    elif nodes_back or (waits_for == _BEGIN_TIME and not later):
        waits_for = ""
    return row if waits_for == job.waits_for else replace(row, job=replace(job, waits_for=waits_for))
