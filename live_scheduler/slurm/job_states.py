"""The states that Slurm gives a job, and what each means for the wait for its end."""

from enum import StrEnum

from foundation.errors import UnknownNameError


class Phase(StrEnum):
    """Where a job is, seen from outside."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    INTERRUPTED = "interrupted"  # the cluster's doing, or its time was over: the same job may go on elsewhere
    CANCELLED = "cancelled"  # a person's word, or a deadline's: not to be repeated unasked
    FAILED = "failed"  # the job's own doing

    @property
    def ended(self) -> bool:
        """Return whether nothing more will happen to the job by itself."""
        return self not in (Phase.WAITING, Phase.RUNNING)


# squeue(1) and sacct(1), "JOB STATE CODES": the base states and the flags that squeue shows in their place.
_PHASES = {
    Phase.WAITING: (
        "PENDING",
        "CONFIGURING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
        "POWER_UP_NODE",
    ),
    Phase.RUNNING: (
        "RUNNING",
        "COMPLETING",
        "RESIZING",
        "SIGNALING",
        "STAGE_OUT",
        "STOPPED",
        "SUSPENDED",
        "EXPEDITING",
        "UPDATE_DB",
    ),
    Phase.SUCCEEDED: ("COMPLETED",),
    Phase.INTERRUPTED: ("BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "REVOKED", "TIMEOUT", "RECONFIG_FAIL"),
    Phase.CANCELLED: ("CANCELLED", "DEADLINE"),
    Phase.FAILED: ("FAILED", "OUT_OF_MEMORY", "LAUNCH_FAILED"),
}
PHASE_OF_STATE = {state: phase for phase, states in _PHASES.items() for state in states}


def parse_state(text: str) -> str:
    """Return the state's bare name: `CANCELLED by 1000` is CANCELLED.

    Raises UnknownNameError for a word that is no state of Slurm's.
    """
    state = text.strip().partition(" ")[0].rstrip("+")
    if state not in PHASE_OF_STATE:
        raise UnknownNameError("Slurm job state", text, PHASE_OF_STATE)
    return state
