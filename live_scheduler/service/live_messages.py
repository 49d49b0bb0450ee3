"""The schema's messages as what the scheduler works with, and its decisions as messages."""

import sys
from collections.abc import Iterable
from typing import Any

from live_scheduler import cluster_state as live
from live_scheduler.deciding import decision as decided
from live_scheduler.service import schema

_LARGEST = sys.float_info.max


def live_cluster(state: schema.ClusterState) -> live.ClusterState:
    """Return a pushed cluster as an adapter would have read it."""
    return live.ClusterState(
        at_s=state.at_s,
        jobs=tuple(live_job(job) for job in state.jobs),
        nodes=tuple(
            live.LiveNode(node.name, node.gpus, node.gpus_used, node.available, node.partitions)
            for node in state.nodes
        ),
        closed_partitions=frozenset(state.closed_partitions),
    )


def live_job(job: schema.Job) -> live.LiveJob:
    """Return a pushed job as an adapter would have read it."""
    return live.LiveJob(
        job_id=job.job_id,
        partition=job.partition or job.virtual_cluster,
        virtual_cluster=job.virtual_cluster,
        gpus=job.gpus,
        submit_time_s=job.submit_time_s,
        user=job.user,
        name=job.name,
        cpus=job.cpus,
        nodes=job.nodes,
        time_limit_s=job.time_limit_s,
        job_type=job.job_type,
        held=job.held,
        waits_for=job.waits_for,
        restarts=int(job.profiled),
        start_time_s=job.start_time_s,
        gpus_on=tuple((share.node, share.gpus) for share in job.gpus_on),
        shares_gpus=job.shares_gpus,
        other_facts={
            name: float(text) if live.OTHER_FACTS[name].is_number else text
            for name, text in job.facts.items()
        },
    )


def live_ends(ended: Iterable[schema.EndedJob]) -> list[live.EndedJob]:
    """Return reported ends as accounting would have them."""
    return [
        live.EndedJob.of_run(live_job(end.job), end.state, end.start_time_s, end.end_time_s) for end in ended
    ]


def decision_message(decision: decided.Decision) -> schema.Decision:
    """Return a decision as a message."""
    return schema.Decision(
        at_s=decision.at_s,
        release=decision.release,
        policy=decision.policy,
        latency_s=decision.latency_s,
        release_version=decision.release_version,
        ranked=tuple(_place(place) for place in decision.ranked),
        sends_home=decision.sends_home,
        left_alone=dict(decision.left_alone),
        problem=decision.problem,
    )


def _place(place: decided.QueuePlace) -> schema.Place:
    gpus_on = tuple(schema.NodeShare(node=node, gpus=gpus) for node, gpus in place.gpus_on)
    return schema.Place(**place._asdict() | {"rank": rank_numbers(place.rank), "gpus_on": gpus_on})


def rank_numbers(rank: Any) -> tuple[float, ...]:
    """Return what a policy ordered a job by as finite numbers; empty for what is no number."""
    parts = rank if isinstance(rank, tuple) else (rank,)
    numbers = [float(part) for part in parts if isinstance(part, int | float)]
    if len(numbers) != len(parts):
        return ()
    return tuple(min(max(number, -_LARGEST), _LARGEST) for number in numbers)
