"""What the live scheduler would have done, beside what happened, from its decision log.

In the mode `observe` the cluster keeps its own order: the agreement is the share of its
starts that the policy would have made by then too, and how much earlier. In the mode `control` the two should
nearly agree; where they do not, limits and rules that only the cluster knows stood in the way.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from live_scheduler.hindsight.decision_log import read_lines


@dataclass(frozen=True)
class StartAgreement:
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


def start_agreement(log: Path, since_s: float = -math.inf) -> StartAgreement:
    """Compare the starts in a decision log from `since_s` (Unix time) on."""
    first_chosen_s: dict[str, float] = {}
    leads: list[float] = []
    started = 0
    for line in read_lines(log):
        for job_id in line.chosen:
            first_chosen_s.setdefault(job_id, line.at_s)
        for job_id in line.started:
            first_s = first_chosen_s.pop(job_id, None)
            if line.at_s >= since_s:
                started += 1
                if first_s is not None:
                    leads.append(line.at_s - first_s)
    mean_lead_s = sum(leads) / len(leads) if leads else None
    return StartAgreement(
        started, len(leads), mean_lead_s, sum(at_s >= since_s for at_s in first_chosen_s.values())
    )
