"""What the live scheduler would have done, beside what happened, from its decision log.

In the mode `observe` the cluster keeps its own order: agreement says how often it started a job that the
policy would have started by then too, and how much earlier the policy would have done so. In the mode
`control` the two should nearly agree; where they do not, limits and rules that only the cluster knows stood
in the way.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from live_scheduler.hindsight.decision_log import read_lines


@dataclass(frozen=True)
class Agreement:
    """Starts since a time. `agreed`: the policy would have started the job by then as well.

    `mean_lead_s`: how long before its start the policy first chose a job of these, None without any.
    `passed_over`: jobs that the policy would have started and that were not started by the log's end.
    """

    started: int
    agreed: int
    mean_lead_s: float | None
    passed_over: int

    @property
    def share(self) -> float | None:
        """The share of starts that the policy agreed with; None without a start."""
        return self.agreed / self.started if self.started else None


def agreement(log: Path, since_s: float = -math.inf) -> Agreement:
    """Compare the starts that a decision log tells of from `since_s` (Unix time) on."""
    chosen: dict[str, float] = {}
    leads: list[float] = []
    started = 0
    for line in read_lines(log):
        for job_id in line.chosen:
            chosen.setdefault(job_id, line.at_s)
        for job_id in line.started:
            first_s = chosen.pop(job_id, None)
            if line.at_s >= since_s:
                started += 1
                if first_s is not None:
                    leads.append(line.at_s - first_s)
    mean_lead_s = sum(leads) / len(leads) if leads else None
    return Agreement(started, len(leads), mean_lead_s, sum(at_s >= since_s for at_s in chosen.values()))
