"""Decides for a live cluster with the simulator's policies: the same objects, on a snapshot of real nodes.

At each decision every waiting job is estimated anew, ranked by the policy's `priority`, and the policy's
`decide` says which jobs would start now. A cluster that serves the highest priority first then does what the
policy does if it finds, in this order: jobs that are overdue, those that the policy starts now, those that
need no GPU, and the rest as the policy ranks it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from live_scheduler.adapter import Profiling
from live_scheduler.cluster_state import ClusterState
from live_scheduler.deciding.decision import Decision, QueuePlace
from live_scheduler.deciding.live_pools import LivePools, ProfileSource, with_profile_facts
from live_scheduler.deciding.waiting_jobs import WaitingJobColumns
from live_scheduler.live_settings import LiveSettings
from simulator.actions import Action, Colocate, Preempt, Start
from simulator.job_view import JobView
from simulator.policy import Policy
from simulator.snapshot import Snapshot
from simulator.workload.colocation import BelievedPairs


class Estimator(Protocol):
    """Estimates the run times of waiting jobs (`OnlineState`)."""

    @property
    def waiting(self) -> Sequence[str]:
        """The ids of the jobs that are estimated."""

    def join(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Estimate these jobs too from now on (facts as `LiveJob.facts`)."""

    def leave(self, job_ids: Iterable[str]) -> None:
        """Estimate these jobs no longer."""

    def estimates(self, at_s: float) -> NDArray[np.float64]:
        """P50 run times (s), shape (jobs,), in the order of `waiting`."""

    def estimate_now(self, jobs: Sequence[Mapping[str, Any]], at_s: float) -> Sequence[float]:
        """P50 run times (s) of jobs that do not wait, as known at `at_s`."""


class DecisionMaker:
    """One policy with one release's estimates: `follow` a reading, then `decide`."""

    stopwatch: Callable[[], float] = staticmethod(perf_counter)  # in seconds; what decisions are timed by

    def __init__(
        self,
        policy: Policy,
        estimator: Estimator,
        settings: LiveSettings,
        *,
        release: str,
        release_version: int | None = None,
        profile_of: ProfileSource | None = None,
        profiling: Profiling | None = None,
        believed_pairs: BelievedPairs | None = None,
    ) -> None:
        self.policy, self.estimator, self.settings = policy, estimator, settings
        self.release, self.release_version = release, release_version
        self._believed_pairs = believed_pairs
        self.pools = LivePools(
            policy,
            partitions=settings.partitions,
            profiling_partition=settings.profiling_partition,
            profile_of=profile_of,
            profiling=profiling,
        )
        self._cluster: ClusterState | None = None
        self._estimated: dict[str, JobView] = {}
        self._waiting = WaitingJobColumns(self.pools, {})

    def follow(self, cluster: ClusterState) -> None:
        """Take in a reading of the cluster."""
        before = self.pools.views
        self.pools.follow(cluster)
        for job_id, view in before.items():
            if view.placement is not None and job_id not in self.pools.views:
                self.policy.observe_end(view, cluster.at_s)
        waiting = {
            view.job.job_id: view
            for queues in (self.pools.waiting, self.pools.cpu_jobs)
            for queue in queues.values()
            for view in queue
        }
        jobs, estimated = cluster.by_id, self._estimated
        # A job that its user changed has a view of its own again, and may have other keys.
        self.estimator.leave(
            [job_id for job_id, view in estimated.items() if waiting.get(job_id) is not view]
        )
        self.estimator.join(
            with_profile_facts(jobs[job_id].facts(), view.job.profile)
            for job_id, view in waiting.items()
            if estimated.get(job_id) is not view
        )
        self._estimated = waiting
        at = {job_id: position for position, job_id in enumerate(self.estimator.waiting)}
        self._waiting = WaitingJobColumns(self.pools, at)
        self._cluster = cluster
        # Jobs that ran before they were ever seen to wait.
        unknown = {
            job_id: view
            for job_id, view in self.pools.views.items()
            if view.placement is not None and view.estimated_duration_s is None
        }
        facts = [jobs[job_id].facts() for job_id in unknown]
        beliefs = self.estimator.estimate_now(facts, cluster.at_s) if facts else ()
        for view, estimate_s in zip(unknown.values(), beliefs, strict=True):
            view.estimated_duration_s = min(estimate_s, view.job.time_limit_s or inf)

    def decide(self) -> Decision:
        """Order all queues as of the last reading.

        Raises BadInputError when an estimate is not a positive number; whatever a policy raises comes
        through.
        """
        cluster = self._cluster
        if cluster is None:
            raise BadInputError("There is nothing to decide on.", remedy="Call `follow` first.")
        began = self.stopwatch()
        now_s = cluster.at_s
        pools, waiting = self.pools.pools, self._waiting
        order, ranks = waiting.rank(self.policy, self.estimator.estimates(now_s))
        waiting.queue_up(order)
        snapshot = Snapshot(pools, now_s, changed=tuple(pools.values()), believed_pairs=self._believed_pairs)
        started, sends_home = _sorted_out(self.policy.decide(snapshot))
        turns = {name: self.policy.service_order(pool) or {} for name, pool in pools.items()}
        orders = waiting.serve(order, started, turns, now_s - self.settings.longest_wait_s)
        latency_s = self.stopwatch() - began
        ranked: list[QueuePlace] = []
        rank_texts = [*ranks]
        rank_texts += [None] * (len(waiting.views) - len(rank_texts))
        for name, (places, overdue) in orders.items():
            starts = started.get(name, {})
            nodes = self.pools.nodes_of(name) if starts else ()
            served = [(waiting.views[place], rank_texts[place]) for place in places.tolist()]
            if turns[name]:
                served = [(view, turns[name].get(view)) for view, _ in served]
            ranked += _places(self.pools.partition_of(name), served, overdue, starts, nodes)
        return Decision(
            at_s=now_s,
            release=self.release,
            release_version=self.release_version,
            policy=self.settings.policy,
            ranked=tuple(ranked),
            sends_home=tuple(sends_home),
            left_alone=self.pools.left_alone,
            latency_s=latency_s,
        )


def _places(
    partition: str,
    order: Iterable[tuple[JobView, Any]],
    overdue: int,
    started: Mapping[JobView, Start | Colocate],
    nodes: Sequence[str],
) -> Iterable[QueuePlace]:
    for place, (view, rank) in enumerate(order, start=1):
        action = started.get(view) if started else None
        if action is None:
            yield QueuePlace(
                view.job.job_id, partition, place, False, view.estimated_duration_s, rank, place <= overdue
            )
            continue
        yield QueuePlace(
            view.job.job_id,
            partition,
            place,
            True,
            view.estimated_duration_s,
            rank,
            place <= overdue,
            action.partner.job.job_id if isinstance(action, Colocate) else None,
            action.limit_s if isinstance(action, Start) else None,
            tuple([(nodes[at], gpus) for at, gpus in action.placement]) if isinstance(action, Start) else (),
        )


def _sorted_out(
    actions: Iterable[Action],
) -> tuple[dict[str, dict[JobView, Start | Colocate]], list[str]]:
    """The jobs that start, by pool and in order, and those whose run on the profiler is cut short.

    Other actions have no counterpart on a live cluster (nodes are not lent), and are left out.
    """
    started: dict[str, dict[JobView, Start | Colocate]] = {}
    sends_home: list[str] = []
    for action in actions:
        if isinstance(action, Start | Colocate):
            started.setdefault(action.job.pool, {})[action.job] = action
        elif isinstance(action, Preempt) and action.job.run_limit_s is not None:
            sends_home.append(action.job.job.job_id)
    return started, sends_home
