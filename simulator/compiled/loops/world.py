"""What the loop works on, by name: groups of arrays, each given as where it begins.

`simulator.compiled.arrays` says what each array is.
"""

from collections import namedtuple

from simulator.compiled.arrays import COUNTS, ROW_FIELDS

(
    JOBS,
    SUBMITTED_JOBS,
    ENDED,
    COMPLETED_JOBS,
    RUNNING_JOBS,
    STARTS,
    ARRIVALS,
    CANCEL_AT,
    CHANGE_AT,
    DECISIONS,
    CANCELS,
    CHANGES,
    POOLS,
    IN_HELD,
    BACKFILLS,
    PREEMPTS,
    VOID_UNTIL,
    EPOCH,
) = range(len(COUNTS))

(
    NODE_AT,
    BITS_AT,
    WORDS,
    STRIDE,
    COUNT_AT,
    INDEX_AT,
    INDEX_WORDS,
    SIZE,
    NODES,
    TOTAL,
    JOURNAL_AT,
    JOURNAL,
) = range(len(ROW_FIELDS))
ROW = len(ROW_FIELDS)

# States of jobs; the last three are those of a decision that is being made.
SUBMITTED, PENDING, HELD, RUNNING, COMPLETED, CANCELLED, STARTING, FILLING, EVICTED = range(9)
# What preempts: the least remaining run time, or the least attained service.
BY_REMAINING, BY_ATTAINED = 1, 2

Jobs = namedtuple("Jobs", "submit_s duration_s pool rank leaves state entry start_s end_s")
Given = namedtuple("Given", "cancel_s cancel_job change_s change_pool change_nodes")
Pools = namedtuple("Pools", "changed fit held_jobs begun")
# `of`: in which queue a job waits. Of each queue: where its part of the heap begins, how many entries that
# has room for, and how many it has.
Queue = namedtuple("Queue", "of ranks arrivals jobs at room length")
Ends = namedtuple("Ends", "at_s jobs order place")
Nodes = namedtuple("Nodes", "rows bits count free chain dirty journal spare later stamp freest")
Held = namedtuple("Held", "gpus first whole rest")
# The runs of each pool by believed end, equal ends by submission: where they are listed, and how many.
Runs = namedtuple("Runs", "end_s jobs at length start_s belief_s outlived")
# Of each demand: where its tree begins and how many leaves it has (a power of two), where its jobs are
# listed, the GPUs, and how many jobs wait; of each job: its demand, and its place there.
Demands = namedtuple("Demands", "least tree_at leaves jobs_at jobs gpus waiting of place")
# Of jobs: what was asked for (which a belief may start from), the most that may be believed, and codes of the
# user and of the demand; of users and demands: what has ended. NaN: nothing. `steps_s`: by how much a belief
# that was outlived grows, each time; where there are none, it is doubled, and nothing is learnt.
Beliefs = namedtuple(
    "Beliefs", "asked_s most_s user demand count last_s before_s demand_s demand_count steps_s steps"
)
# Where the demands of each pool begin and end, smallest first; when its head will start, as long as that
# stands (below zero: it does not); whether the shortest job fills a gap first.
Gaps = namedtuple("Gaps", "from_kind to_kind shadow_s shortest_first")

# Of jobs: what remains and what was attained as of `since_s`, since when it runs or waits; what it waited,
# how often it was preempted and what that costs each time; when its rank changes while it runs. Of pools:
# when that is first (minus infinity: unknown), and when to decide again.
Share = namedtuple(
    "Share",
    "remaining_s attained_s since_s delay_s overhead_s preemptions cost_s expiry_s next_expiry_s wake_s "
    "threshold_gpu_s round_s completion_s",
)
# The running jobs of each pool by rank, equals by their start.
Ranked = namedtuple("Ranked", "ranks starts jobs at length")

World = namedtuple(
    "World", "jobs given pools queue ends nodes held runs demands beliefs gaps share ranked counts"
)
