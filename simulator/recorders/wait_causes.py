"""What keeps a job waiting, by name and column."""

from enum import IntEnum


class WaitCause(IntEnum):
    """What keeps a job waiting at a moment; the first that holds."""

    GPUS = 0  # fewer GPUs are free in its pool than it needs
    PLACEMENT = 1  # enough are free, but scattered over nodes: no consolidated gang placement
    TURN = 2  # a placement existed when the policy last decided, and others came first in its order
    ROUND = 3  # a placement exists, and the policy has not decided since it, or the job, came
    POLICY = 4  # a placement existed, no job was ahead in the queue, and the policy did not use it
    PROFILER = 5  # it waits in a partition that the policy set aside, such as Lucid's profiler


CAUSE_COLUMNS = {
    WaitCause.GPUS: "waited_for_gpus_s",
    WaitCause.PLACEMENT: "waited_for_placement_s",
    WaitCause.TURN: "waited_for_turn_s",
    WaitCause.ROUND: "waited_for_round_s",
    WaitCause.POLICY: "waited_for_policy_s",
    WaitCause.PROFILER: "waited_for_profiler_s",
}

# What a job waits for, in a word or two.
CAUSE_NAMES = {
    WaitCause.GPUS: "free GPUs",
    WaitCause.PLACEMENT: "a placement",
    WaitCause.TURN: "its turn",
    WaitCause.ROUND: "a round",
    WaitCause.POLICY: "the policy",
    WaitCause.PROFILER: "the profiler",
}
