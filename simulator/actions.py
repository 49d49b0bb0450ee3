"""What a policy may ask for. A simulation applies actions to its own nodes; a live scheduler to real ones."""

from dataclasses import dataclass

from simulator.placement import Placement
from simulator.snapshot import JobView


@dataclass(frozen=True, slots=True)
class Start:
    """Run a queued job alone on these GPUs, in the node pool that it is queued for.

    With `limit_s` the run is bounded: a job that has not ended by then is stopped, what it computed is lost
    (nothing was checkpointed), and it queues again, marked as profiled.
    """

    job: JobView
    placement: Placement
    limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class Colocate:
    """Run a queued job on the very GPUs of a running one, of equal GPU demand and without a partner yet."""

    job: JobView
    partner: JobView


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stop a running job; it keeps its progress, queues again, and pays an overhead when it resumes."""

    job: JobView


Action = Start | Colocate | Preempt
