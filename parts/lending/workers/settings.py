"""What an operator sets of a policy over workers."""

from dataclasses import dataclass
from typing import Literal

from parts.lending.replay.settings import LoanSettings
from simulator.policy import Sizes

Order = Literal["shortest", "submission"]


@dataclass(frozen=True)
class WorkerSettings(LoanSettings):
    """Parts of Lyra, each of which can be switched off, beside how servers are lent (`LoanSettings`).

    `loaning`: jobs run on servers of the inference service; without one nothing is lent. `scaling`: elastic
    jobs get flexible workers. `order`: "shortest" job first, passing over those that do not fit, or strictly
    by "submission". `special_placement`: elastic jobs go to servers on loan first, and their
    base and flexible workers to servers of their own there (section 5.3). `epoch_s`: decisions fall on
    multiples of so many seconds; 0: at every event. `sizes`: "true" run times, or "estimated" ones.
    `preemption_s` is what a preempted job loses at its next start, beside its progress if it has no
    checkpoint (section 7.1: 63 s).
    """

    loaning: bool = True
    scaling: bool = True
    order: Order = "shortest"
    special_placement: bool = True
    epoch_s: float = 60.0
    sizes: Sizes = "true"
    preemption_s: float = 63.0
