"""Colocation on Slurm: in partitions of one-GPU nodes with gres/shard, the policy pairs jobs on a GPU.

Slurm alone puts any two jobs that ask for a shard on one GPU, and no partner can be named. So a waiting job
of such a partition has a begin time that is renewed pass by pass, and does not start by itself. One that the
policy starts is pinned to a node (a wholly idle one, or the node of the partner that the policy chose) and
its begin time is now.

No job is held for longer than the last begin time that was set: without a daemon the jobs start where Slurm
likes. Why begin times: docs/decisions/0021.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from live_scheduler.adapter import (
    Change,
    ClusterAdapter,
    PriorityRange,
    Refusal,
    RestrictToNode,
    StartAfter,
    WriteBack,
)
from live_scheduler.cluster_state import ClusterState, EndedJob, Kept, LiveJob, LiveNode
from live_scheduler.deciding.decision import Decision, QueuePlace
from live_scheduler.live_settings import LiveSettings, Mode

logger = logging.getLogger("lucid.live")

# What job_submit.lua makes a new job of such a partition wait, so that it is seen before it starts. A number
# that people do not ask for: a begin time so long after the submission is not its user's.
NEW_JOBS_WAIT_S = 47
# A job that was let go and does not start within so long is called back.
PATIENCE_S = 30.0
_BEGIN_TIME = "BeginTime"  # Slurm's reason


class SharedPartitions:
    """A stage of the daemon. `seen` has to be applied to each reading (`over` does it)."""

    def __init__(
        self,
        settings: LiveSettings,
        *,
        delayed: Collection[str] = (),
        restricted: Collection[str] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`delayed` and `restricted` are jobs with begin times and nodes that a daemon before has set."""
        self.partitions = frozenset(settings.shared_partitions)
        self.left_alone: dict[str, str] = {}  # waiting job -> why it is left to Slurm
        # At the latest then, jobs start by themselves without a daemon.
        self.wait_s = int(max(30.0, settings.dead_after_s))
        self._acts = settings.mode is Mode.CONTROL
        self._monotonic = monotonic
        self._delayed = set(delayed)
        self._wished: dict[str, float] = {}  # job -> its user's begin time, which it is kept beyond
        self._let_go: dict[str, tuple[str, float]] = {}  # job -> its node, and since when
        self._restricted = set(restricted)

    def over(self, adapter: ClusterAdapter) -> ClusterAdapter:
        """Return an adapter that reads what this one makes of its readings."""
        return _Seen(self, adapter)

    def seen(self, cluster: ClusterState) -> ClusterState:
        """Return the reading, with the jobs that wait for a begin time of ours as jobs that wait for GPUs."""
        if not self._acts:
            return cluster
        jobs = tuple(
            replace(job, waits_for="") if self._waits_for_us(job, cluster.at_s) else job
            for job in cluster.jobs
        )
        return replace(cluster, jobs=jobs)

    def changes(self, decision: Decision, cluster: ClusterState) -> list[Change]:
        """Return the changes: jobs let go, to which node, and begin times renewed."""
        logged, self.left_alone = self.left_alone, {}
        if not self._acts:
            return []
        waiting = {
            job.job_id: job
            for job in cluster.jobs
            if job.waiting and not job.held and job.gpus and job.partition in self.partitions
        }
        self._delayed &= waiting.keys()
        self._restricted &= waiting.keys()
        self._wished = {job_id: at_s for job_id, at_s in self._wished.items() if job_id in waiting}
        now = self._monotonic()
        self._let_go = {
            job_id: (node, since)
            for job_id, (node, since) in self._let_go.items()
            if job_id in waiting and now - since < PATIENCE_S
        }
        changes: list[Change] = []
        nodes = {node.name: node for node in cluster.nodes if self.partitions & set(node.partitions)}
        runs: dict[str, list[LiveJob]] = {}
        for run in cluster.jobs:
            for name, _ in run.gpus_on:
                runs.setdefault(name, []).append(run)
        for place in decision.ranked:
            job = waiting.get(place.job_id)
            if job is None or not place.starts_now or job.job_id in self._let_go:
                continue
            if self._cannot(job) or not self._is_ours(job, cluster.at_s):
                continue
            node = self._node_for(job, place, nodes, runs)
            if node is not None:
                self._let_go[job.job_id] = node, now
                self._restricted.add(job.job_id)
                self._delayed.discard(job.job_id)
                changes += [RestrictToNode(job.job_id, node), StartAfter(job.job_id, 0)]
        for job in waiting.values():
            if why := self._cannot(job):
                self.left_alone[job.job_id] = why
                left = job.hands_off or Kept.ORDER in job.kept
                if left and job.job_id in self._restricted and Kept.START not in job.kept:
                    changes.append(RestrictToNode(job.job_id, None))
                    self._restricted.discard(job.job_id)
            elif job.job_id not in self._let_go:
                changes += self._kept_waiting(job, cluster.at_s)
        for job_id in sorted(self.left_alone.keys() - logged):
            logger.info("job %s starts where Slurm likes: %s", job_id, self.left_alone[job_id])
        return changes

    def _waits_for_us(self, job: LiveJob, now_s: float) -> bool:
        """Whether only a begin time of ours keeps a job waiting."""
        alone = job.job_id in self.left_alone
        is_ours = job.partition in self.partitions and not alone and self._is_ours(job, now_s)
        return is_ours and job.waiting and job.waits_for == _BEGIN_TIME

    def _is_ours(self, job: LiveJob, now_s: float) -> bool:
        """Whether no begin time of its user's is in the way of a job."""
        begin_s = job.begin_time_s
        if self._wished.get(job.job_id, now_s) > now_s:
            return False
        if begin_s is None or begin_s <= now_s:
            return True
        if job.job_id in self._delayed:
            return begin_s <= now_s + self.wait_s + 1
        return abs(begin_s - job.submit_time_s - NEW_JOBS_WAIT_S) <= 1

    def _cannot(self, job: LiveJob) -> str:
        """Return why it is unknown where a job starts; empty: it is known."""
        if why := job.hands_off or job.kept.get(Kept.START) or job.kept.get(Kept.ORDER):
            return why
        if job.tasks != 1:
            return "the tasks of an array start together"
        if job.gpus != 1:
            return "it asks for several GPUs or nodes"
        if job.pinned_to and job.job_id not in self._restricted:
            return f"its user names the node {job.pinned_to}"
        return ""

    def _node_for(
        self,
        job: LiveJob,
        place: QueuePlace,
        nodes: Mapping[str, LiveNode],
        runs: Mapping[str, list[LiveJob]],
    ) -> str | None:
        """Return the node that the policy's word means: the partner's, or one that is wholly idle."""
        spoken_for = {node for node, _ in self._let_go.values()}
        open_nodes = {
            name
            for name, node in nodes.items()
            if node.available
            and node.gpus == 1
            and job.partition in node.partitions
            and name not in spoken_for
        }
        if place.partner is None:
            # Nodes are read before jobs, which may have started in between.
            return min(
                (name for name in open_nodes if not nodes[name].gpus_used and name not in runs), default=None
            )
        for name in open_nodes:
            there = runs.get(name, [])
            if len(there) == 1 and there[0].job_id == place.partner:
                return name if there[0].shares_gpus and job.shares_gpus else None
        return None

    def _kept_waiting(self, job: LiveJob, now_s: float) -> list[Change]:
        """Renew a begin time that is about to pass, if it is not its user's and far off; unpin the job."""
        changes: list[Change] = []
        begin_s = job.begin_time_s
        if begin_s is None or begin_s - now_s < self.wait_s / 2:
            if begin_s is not None and begin_s > now_s and not self._is_ours(job, now_s):
                self._wished.setdefault(job.job_id, begin_s)
            self._delayed.add(job.job_id)
            changes.append(StartAfter(job.job_id, self.wait_s))
        if job.job_id in self._restricted:  # it did not start where it was let go to
            if job.pinned_to:
                changes.append(RestrictToNode(job.job_id, None))
            else:
                self._restricted.discard(job.job_id)
        return changes


class _Seen:
    """An adapter whose readings are seen by `SharedPartitions`."""

    def __init__(self, shared: SharedPartitions, adapter: ClusterAdapter) -> None:
        self._shared, self._adapter = shared, adapter
        self.name = adapter.name
        self.priorities: PriorityRange = adapter.priorities

    def read(self) -> ClusterState:
        return self._shared.seen(self._adapter.read())

    def ended(self, job_ids: Collection[str], since_s: float) -> list[EndedJob]:
        return self._adapter.ended(job_ids, since_s)

    def ended_since(self, since_s: float) -> list[EndedJob]:
        return self._adapter.ended_since(since_s)

    def apply(self, changes: Sequence[Change]) -> list[Refusal]:
        return self._adapter.apply(changes)

    def own_priorities(self, jobs: Sequence[LiveJob]) -> Mapping[str, bool]:
        return self._adapter.own_priorities(jobs)

    def write_backs(self) -> WriteBack | None:
        return self._adapter.write_backs()
