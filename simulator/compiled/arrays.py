"""The arrays that a compiled replay works on, and the type of each: what the machine code is called with."""

# Of jobs, unless said otherwise; the order is that in which the machine code takes them.
TYPES = {
    "counts": "int64",  # `loops.events.COUNTS`
    # jobs
    "submit_s": "float64",
    "duration_s": "float64",
    "pool": "int32",
    "rank": "int64",
    "leaves": "int8",
    "state": "int8",
    "entry": "int64",
    "start_s": "float64",
    "end_s": "float64",
    # what is given of times to come, in its order: withdrawals, and changes of pools
    "cancel_s": "float64",
    "cancel_job": "int32",
    "change_s": "float64",
    "change_pool": "int32",
    "change_nodes": "int64",
    # pools: where something happened, as bits; the largest job that fits (-1: all do); jobs held, jobs begun
    "changed": "int64",
    "fit": "int64",
    "held_jobs": "int32",
    "begun": "int32",
    # queues, one after another: of pools, or of demands
    "queue_of": "int32",
    "queue_ranks": "int64",
    "queue_arrivals": "int64",
    "queue_jobs": "int32",
    "queue_at": "int64",
    "queue_room": "int64",
    "queue_length": "int64",
    # ends of runs
    "ends_at_s": "float64",
    "ends_jobs": "int32",
    "ends_order": "int64",
    "ends_place": "int32",
    # nodes
    "rows": "int64",
    "bits": "int64",
    "count": "int32",
    "free": "int32",
    "chain": "int32",
    "dirty": "int8",
    "journal": "int32",
    "spare": "int32",
    "later": "int32",
    "stamp": "int64",
    "freest": "int64",
    # what jobs hold
    "gpus": "int32",
    "first": "int32",
    "whole": "int32",
    "rest": "int32",
    # runs by believed end, of all pools one after another
    "run_end_s": "float64",
    "run_jobs": "int32",
    "run_at": "int64",
    "run_length": "int64",
    "run_start_s": "float64",
    "belief_s": "float64",
    "outlived": "int32",
    # demands
    "least": "float64",
    "tree_at": "int64",
    "leaves_of": "int64",
    "demand_jobs_at": "int64",
    "demand_jobs": "int32",
    "demand_gpus": "int64",
    "waiting": "int64",
    "demand_of": "int32",
    "demand_place": "int32",
    # beliefs
    "asked_s": "float64",
    "most_s": "float64",
    "user": "int32",
    "size": "int32",
    "user_count": "int64",
    "last_s": "float64",
    "before_s": "float64",
    "size_s": "float64",
    "size_count": "int64",
    "steps_s": "float64",
    "steps": "int64",
    # gaps
    "from_kind": "int64",
    "to_kind": "int64",
    "shadow_s": "float64",
    "shortest_first": "int64",
    # preemption: of jobs, of pools, and of the rule; running jobs by rank, of all pools one after another
    "remaining_s": "float64",
    "attained_s": "float64",
    "since_s": "float64",
    "delay_s": "float64",
    "overhead_s": "float64",
    "preemptions": "int64",
    "cost_s": "float64",
    "expiry_s": "float64",
    "next_expiry_s": "float64",
    "wake_s": "float64",
    "ranked_ranks": "int64",
    "ranked_starts": "int64",
    "ranked_jobs": "int32",
    "ranked_at": "int64",
    "ranked_length": "int64",
    "limits": "float64",
}

# Numbers that change as a replay goes on, by their places in `counts`.
COUNTS = (
    "jobs",
    "submitted",
    "ended",  # completed or withdrawn
    "completed",
    "running",
    "starts",
    "arrivals",
    "cancelled_at",  # the next of `cancels`
    "changed_at",  # the next of `changes`
    "decisions",
    "cancels",
    "changes",
    "pools",
    "held",  # entries of `held_jobs`, of which some have left
    "backfills",
    "preempts",  # 1: by what remains, 2: by what was attained
    "void_until",  # bits of the last end that was foreseen of a run that was preempted
    "epoch",  # of `stamp`: reservations so far
)

# What a row of the table says: where its parts begin in the arrays, and how large they are.
ROW_FIELDS = (
    "node_at",  # of `free`, `dirty`, `spare`
    "bits_at",  # of the sets of nodes, one for each number of free GPUs
    "words",  # of such a set on its first level
    "stride",  # words of such a set
    "count_at",  # of `count`
    "index_at",  # of the set of the numbers of free GPUs that some node has
    "index_words",
    "size",  # GPUs of a node
    "nodes",
    "total",  # free GPUs
    "journal_at",
    "journal",  # nodes that differ, perhaps, from those of the row to plan on
)
