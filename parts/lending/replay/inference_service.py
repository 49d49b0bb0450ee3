"""An inference cluster as part of a scenario: its servers may be lent to training, and loans are counted."""

from dataclasses import dataclass
from typing import ClassVar

from parts.lending.replay.inference_servers import InferenceServers
from parts.lending.replay.loan_recorder import LoanRecorder
from simulator.scenario.companion import Beginning, Companion


@dataclass(frozen=True)
class InferenceService(InferenceServers, Companion):
    """Inference servers beside any policy, with the fields of `InferenceServers`."""

    key: ClassVar[str] = "inference"
    noun: ClassVar[str] = "Servers on loan"

    def attach(self, beginning: Beginning) -> LoanRecorder:
        """Return what counts servers on loan in a simulation, and tells when no job will start any more."""
        now_s, jobs = beginning.now_s, beginning.jobs
        return LoanRecorder(
            self,
            beginning.pools,
            begun_s=max(now_s, beginning.counted_from_s or now_s),
            judged_until_s=jobs[-1].submit_time_s if jobs else now_s,
            totals=beginning.memory,
        )
