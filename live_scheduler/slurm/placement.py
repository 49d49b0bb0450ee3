"""How many of a run's GPUs are on each of its nodes, where squeue does not say: `scontrol show job`.

Asked once a run, and only for runs on several nodes that did not ask for a number on each.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from cluster_logs.host_lists import expand_hosts
from cluster_logs.slurm_words import gpus_of_gres
from foundation.errors import BadInputError
from live_scheduler.cluster_state import LiveJob
from live_scheduler.slurm.commands import call
from live_scheduler.slurm.queue_reading import QueueRow

# The others of a reading are looked at by the next; until then their GPUs count as evenly spread.
_MOST_AT_ONCE = 50
_NODES_LINE = re.compile(r"^ +Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)$", re.MULTILINE)

Placement = tuple[tuple[str, int], ...]


class Placements:
    """Remembers where the runs of the last reading have their GPUs."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._known: dict[tuple[str, float | None], Placement] = {}

    def place(self, rows: Sequence[QueueRow], limit_s: float) -> list[QueueRow]:
        """Return the rows with `gpus_on` as Slurm has it. Raises ServiceUnavailableError."""
        placement_of: dict[tuple[str, float | None], Placement] = {}
        placed, asked = [], 0
        for row in rows:
            if not row.uneven:
                placed.append(row)
                continue
            run = (row.job.job_id, row.job.start_time_s)
            where = self._known.get(run)
            if where is None and asked < _MOST_AT_ONCE:
                asked += 1
                where = _ask(row, limit_s)
            if where is not None:
                placement_of[run] = where
                row = replace(row, job=replace(row.job, gpus_on=where))
            placed.append(row)
        self._known = placement_of
        return placed


def _ask(row: QueueRow, limit_s: float) -> Placement:
    try:
        text = call(["scontrol", "--details", "show", "job", row.target], limit_s=limit_s)
    except BadInputError:  # it has ended
        return row.job.gpus_on
    return placement_in(text, row.job, row.nodes)


def placement_in(text: str, job: LiveJob, nodes: Sequence[str]) -> Placement:
    """Return the placement that the details of a job give; an even one where they do not add up.

    What a user wrote stands in them too, line ends included: only lines about the job's nodes that make up
    its GPUs are believed.
    """
    placements = [
        (node, gpus_of_gres(gres))
        for listed, gres in _NODES_LINE.findall(text)
        for node in expand_hosts(listed)
    ]
    adds_up = sum(gpus for _, gpus in placements) == job.gpus
    if not adds_up or sorted(node for node, _ in placements) != sorted(nodes):
        return job.gpus_on
    return tuple((node, gpus) for node, gpus in placements if gpus)
