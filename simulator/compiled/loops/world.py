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

# States of jobs; STARTING and FILLING are those of a decision that is being made.
SUBMITTED, PENDING, HELD, RUNNING, COMPLETED, CANCELLED, STARTING, FILLING = range(8)

Jobs = namedtuple("Jobs", "submit_s duration_s pool rank leaves state entry start_s end_s")
Given = namedtuple("Given", "cancel_s cancel_job change_s change_pool change_nodes")
Pools = namedtuple("Pools", "changed fit held_jobs begun")
# Of each pool: where its part of the heap begins, how many entries that has room for, and how many it has.
Queue = namedtuple("Queue", "keys jobs at room length")
Ends = namedtuple("Ends", "at_s jobs order")
Nodes = namedtuple("Nodes", "rows bits count free chain dirty journal spare later stamp freest")
Held = namedtuple("Held", "gpus first whole rest")
# The runs of each pool by believed end, equal ends by submission: where they are listed, and how many.
Runs = namedtuple("Runs", "end_s jobs at length start_s belief_s outlived")
# Of each demand: where its tree begins and how many leaves it has (a power of two), where its jobs are
# listed, the GPUs, and how many jobs wait; of each job: its demand, and its place there.
Demands = namedtuple("Demands", "least tree_at leaves jobs_at jobs gpus waiting of place")
# Of jobs: what was asked for (which a belief may start from), the most that may be believed, and codes of the
# user and of the demand; of users and demands: what has ended. NaN: nothing. `steps_s`: by how much a belief
# that was outlived grows, each time; where there are none, it is doubled, and nobody learns.
Beliefs = namedtuple(
    "Beliefs", "asked_s most_s user demand count last_s before_s demand_s demand_count steps_s steps"
)
# Where the demands of each pool begin and end, smallest first; when its head will start, as long as that
# stands (below zero: it does not); whether the shortest job fills a gap first.
Gaps = namedtuple("Gaps", "from_kind to_kind shadow_s shortest_first")

World = namedtuple("World", "jobs given pools queue ends nodes held runs demands beliefs gaps counts")
