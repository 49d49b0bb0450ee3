"""What a policy may ask for. A simulation applies actions to its own nodes; a live scheduler to real ones."""

from dataclasses import dataclass

from foundation.errors import LucidError
from simulator.cluster.placement import NOWHERE, Placement
from simulator.job_view import JobView
from simulator.snapshot import NodePool


class PolicyError(LucidError):
    """A policy asked for something impossible, or left jobs waiting for ever."""


# Actions are made once a start, in the innermost loop: `frozen` would make that three times as dear.
@dataclass(slots=True)
class Start:
    """Run a queued job alone on these GPUs, in the node pool that it is queued for.

    They are all that it asks for; an elastic job may do with fewer, down to its minimum.

    With `limit_s` the run is bounded: a job that has not ended by then is stopped, what it computed is lost
    (nothing was checkpointed), and it queues again, marked as profiled.

    `flexible` is the part of the placement that a job's flexible workers hold (`Job.workers`); the others are
    its base workers.
    """

    job: JobView
    placement: Placement
    limit_s: float | None = None
    flexible: Placement = NOWHERE


@dataclass(slots=True)
class Colocate:
    """Run a queued job on the very GPUs of a running one, of equal GPU demand and without a partner yet."""

    job: JobView
    partner: JobView


@dataclass(slots=True)
class Resize:
    """Have a running elastic job go on with these GPUs: more, fewer, or others.

    It must run alone and without a limit, and hold its minimum at least. It keeps its progress and pays the
    policy's overhead (`RunCosts.resize_s`), in which it holds its new GPUs. GPUs that it gives up are free
    for the actions after this one. `flexible` as in `Start`.
    """

    job: JobView
    placement: Placement
    flexible: Placement = NOWHERE


@dataclass(slots=True)
class Preempt:
    """Stop a running job, which queues again; a partner runs on alone.

    A job that keeps its progress pays the policy's overhead when it resumes. One that does not (nothing was
    checkpointed) starts again from zero, and pays `RunCosts.restart_s`. A run with a limit
    can only be cut short like that; it then does not count as profiled, nor as preempted.
    """

    job: JobView
    keeps_progress: bool = True


@dataclass(slots=True)
class Loan:
    """Hand an idle node of one pool to another, until the borrower gives it back (`Reclaim`).

    After either the policy is asked again, at the same moment, in the pool that gained the node.
    """

    lender: NodePool
    borrower: NodePool
    node: int  # its index in the lender


@dataclass(slots=True)
class Reclaim:
    """Hand an idle guest node back to the pool that lent it."""

    borrower: NodePool
    node: int  # its index in the borrower


Action = Start | Colocate | Resize | Preempt | Loan | Reclaim
