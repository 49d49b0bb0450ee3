"""The event-driven engine: exact in time, deterministic, and without knowledge of any policy.

Time jumps from event to event. At each moment the engine first applies everything that happens then, in the
order of `EventKind`, and then asks the policy once. A running job costs nothing between its events.
"""

import sys
from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil, inf
from time import process_time
from typing import Any

import numpy as np

from cluster_logs.errors import BadInputError, LucidError
from cluster_logs.progress import Progress, silent
from simulator.actions import Action, Colocate, Loan, Preempt, Reclaim, Start
from simulator.artifact_rules.pair_speed_rules import under_rules
from simulator.cluster import ClusterSpec
from simulator.cluster_changes import ClusterChange, SizeChange
from simulator.colocation import BelievedPairs, ColocationModel, UtilisationModel
from simulator.event_kinds import EventKind
from simulator.forecast import ThroughputForecast
from simulator.metrics import mean, schedule_summary
from simulator.node_books import NodeBooks, Repair, cpu_pool, make_pools
from simulator.outgrown import OutgrownJobs
from simulator.policy import Policy
from simulator.recorder import Recorder, StopReason
from simulator.result import SimulationResult, job_rows
from simulator.rules import Rules, load_rules
from simulator.running_order import RunningOrder
from simulator.snapshot import JobView, NodePool, RunState, Snapshot
from simulator.workload import Workload, refuse_negative_estimates

PROGRESS_EVERY = 1000  # completed jobs
_COMPLETE = int(EventKind.COMPLETE)
STEP_TOLERANCE = 1e-6  # of a step: what rounding leaves over is not work
MAX_DECISIONS_AT_ONE_MOMENT = 10_000  # a policy that starts and preempts for ever is stopped


class PolicyError(LucidError):
    """A policy asked for something impossible, or left jobs waiting for ever."""


class Simulation:
    """One policy on one workload and cluster: look at `now_s`, `step()`, `run(until_s)`, then `result()`."""

    def __init__(
        self,
        workload: Workload,
        cluster: ClusterSpec,
        policy: Policy,
        *,
        name: str | None = None,
        rules: Rules | str = "default",
        colocation: ColocationModel | None = None,
        changes: Sequence[ClusterChange] = (),
        forecast: ThroughputForecast | None = None,
        believed_pairs: BelievedPairs | None = None,
        recorder: Recorder | None = None,
        progress: Progress | None = None,
    ) -> None:
        began = process_time()
        self.rules = load_rules(rules) if isinstance(rules, str) else rules
        self.policy = policy
        self.name = name or type(policy).__name__.lower()
        self.workload = workload.that_fit(cluster, changes)
        if policy.needs_estimates:
            without = [job.job_id for job in self.workload.jobs if job.estimated_duration_s is None]
            if without:
                raise BadInputError(
                    f"{self.name} needs estimated durations, and {len(without)} jobs have none "
                    f"(the first: {without[0]!r}).",
                    remedy="Give estimates, for instance simulator.user_history.user_history_estimates.",
                )
            if not self.rules.negative_estimates:
                refuse_negative_estimates(self.workload, self.name)
        largest: dict[str, int] = dict.fromkeys(cluster.virtual_clusters, 0)
        for job in self.workload.jobs:
            if job.gpus > largest[job.virtual_cluster]:
                largest[job.virtual_cluster] = job.gpus
        self.cluster = policy.prepare(cluster, largest)
        self.pools = make_pools(self.cluster, cluster.cpu_cores_per_node, self.rules.remainder)
        self.jobs = [JobView(job, index) for index, job in enumerate(self.workload.jobs)]
        self.now_s = 0.0
        self.decisions = 0
        self.completed = 0
        self.cancelled = 0
        self._nodes = NodeBooks(self.pools, cluster, self.cluster)
        resized = {change.virtual_cluster for change in changes if isinstance(change, SizeChange)}
        names = [name for base in sorted(resized) for name in (base, cpu_pool(base)) if name in self.pools]
        self._outgrown = OutgrownJobs(self.pools[name] for name in names) if names else None
        self._colocation = under_rules(colocation or UtilisationModel(), self.rules)
        self._progress = progress or silent
        self._recorder = recorder
        self._costs = policy.costs
        self._completion_s = policy.costs.completion_s
        self._step_s = self.rules.step_s
        # What a policy does not override is not called: these are asked at each event.
        self._chooses_pool = type(policy).pool_of is not Policy.pool_of
        self._asks_for_wakes = type(policy).next_change_s is not Policy.next_change_s
        self._keeps_order = type(policy).running_key is not Policy.running_key
        if self._keeps_order:
            for pool in self.pools.values():
                pool.running_order = RunningOrder(policy.running_key)
        self._in_order = policy.in_order
        self._learns = type(policy).observe_end is not Policy.observe_end
        self._rank = {pool: i for i, pool in enumerate(self.pools.values())}
        self._changed: dict[NodePool, None] = {}
        self._wakes: dict[NodePool, float] = {}
        self._snapshot = Snapshot(self.pools, forecast=forecast, believed_pairs=believed_pairs)
        self._ended_in_profiling: set[int] = set()
        self._submitted = 0  # jobs are sorted by submission: these have been, the others are to come
        # (time, kind, sequence, subject, version of the job when the event was foreseen)
        self._events: list[tuple[float, int, int, Any, int]] = []
        self._sequence = 0
        for change in sorted(changes, key=lambda change: change.at_s):
            self._push(change.at_s, EventKind.CLUSTER, change, 0)
        for view in self.jobs:
            if view.job.cancel_time_s is not None:
                self._push(max(view.job.cancel_time_s, view.submit_time_s), EventKind.CANCEL, view, 0)
        self._cpu_s = process_time() - began

    # -- running ---------------------------------------------------------------------------------------------

    def run(self, until_s: float = inf) -> None:
        """Run to the end, or until the next moment lies after `until_s`."""
        self._advance(until_s, moments=sys.maxsize)

    def step(self, until_s: float = inf) -> bool:
        """Let everything of the next moment happen, and let the policy decide.

        Does nothing and returns False when all jobs are done, or when nothing happens until `until_s`.
        """
        return self._advance(until_s, moments=1) > 0

    def _advance(self, until_s: float, moments: int) -> int:
        """Take up to so many moments that lie not after `until_s`; return how many there were."""
        began = process_time()
        events, jobs = self._events, self.jobs
        count, at = len(jobs), self._submitted
        taken = 0
        while taken < moments and self.completed + self.cancelled < count:
            now = jobs[at].submit_time_s if at < count else inf
            if events and events[0][0] < now:
                now = events[0][0]
            if now > until_s or now == inf:
                break
            self.now_s = now
            taken += 1
            for _ in range(MAX_DECISIONS_AT_ONE_MOMENT):
                while events and events[0][0] == now:
                    _, kind, _, subject, version = heappop(events)
                    if kind:
                        self._happen(kind, subject, version)
                    elif subject.version == version:
                        self._complete(subject)
                while at < count and jobs[at].submit_time_s == now:
                    at += 1
                    self._submitted = at
                    if jobs[at - 1].state is RunState.SUBMITTED:
                        self._enqueue(jobs[at - 1])
                if self._changed:
                    self._decide()
                if not self._changed and (not events or events[0][0] != now):
                    break
            else:
                raise PolicyError(
                    f"{self.name} made {MAX_DECISIONS_AT_ONE_MOMENT} decisions at {now} s without end."
                )
        self._cpu_s += process_time() - began
        return taken

    def _happen(self, kind: int, subject: Any, version: int) -> None:
        """Let one of the rarer events happen."""
        if kind == EventKind.WAKE:
            if self._wakes.get(subject) == self.now_s:
                del self._wakes[subject]
                self._changed[subject] = None
        elif kind == EventKind.CANCEL:
            self._cancel(subject)
        elif kind == EventKind.CLUSTER:
            self._change_cluster(subject)
        elif subject.version == version:
            if kind == EventKind.LIMIT:
                self._stop_at_limit(subject)
            else:
                self._change_phase(subject)

    def _decide(self) -> None:
        now = self.now_s
        policy = self.policy
        round_s = policy.round_s
        if round_s is not None and now % round_s:
            for pool in self._changed:
                self._wake(pool, now)
            self._changed.clear()
            return
        changed = tuple(self._changed)
        if len(changed) > 1:
            changed = tuple(sorted(changed, key=self._rank.__getitem__))
        self._changed.clear()
        snapshot = self._snapshot
        snapshot.now_s = now
        snapshot.changed = changed
        self.decisions += 1
        for action in policy.decide(snapshot):
            if type(action) is Start:
                self._start(action)
            else:
                self._apply(action)
        if self._asks_for_wakes:
            for pool in changed:
                later = policy.next_change_s(pool, now)
                if later is not None:
                    self._wake(pool, later)
        if self._recorder is not None:
            self._recorder.decided(now, changed)

    def _wake(self, pool: NodePool, at_s: float) -> None:
        """Decide again in a pool at `at_s`, or at the first round from then on, but later than now."""
        round_s = self.policy.round_s
        if round_s is not None:
            at_s = -(-at_s // round_s) * round_s
            if at_s <= self.now_s:
                at_s += round_s
        elif at_s <= self.now_s:
            return
        pending = self._wakes.get(pool)
        if pending is None or at_s < pending:
            self._wakes[pool] = at_s
            self._push(at_s, EventKind.WAKE, pool, 0)

    def _push(self, at_s: float, kind: int, subject: Any, version: int) -> None:
        self._sequence += 1
        heappush(self._events, (at_s, int(kind), self._sequence, subject, version))

    # -- what happens to a job -------------------------------------------------------------------------------

    def _enqueue(self, view: JobView) -> None:
        if not view.job.gpus:
            name = cpu_pool(view.job.virtual_cluster)
        elif self._chooses_pool:
            name = self.policy.pool_of(view)
        else:
            name = view.job.virtual_cluster
        pool = self.pools.get(name)
        if pool is None:
            raise PolicyError(f"{self.name} sends job {view.job.job_id!r} to {name!r}, which does not exist.")
        view.state = RunState.PENDING
        view.pool = name
        view.queued_since_s = self.now_s
        if self._outgrown is None or not self._outgrown.hold(view, pool):
            pool.queue.add(self.policy.priority(view), view)
        if not self._in_order or pool.queue.head() is view:
            self._changed[pool] = None
        if self._recorder is not None:
            self._recorder.queued(self.now_s, view, pool)

    def _settle(self, view: JobView) -> None:
        """Write down a running job's progress as of now."""
        elapsed = self.now_s - view.run_since_s
        if elapsed:
            remaining_s = view.remaining_s - elapsed * view.speed
            view.remaining_s = remaining_s if remaining_s > 0 else 0.0
            view.attained_s += elapsed
            if view.partner is not None:
                view.colocated_s += elapsed
            view.run_since_s = self.now_s

    def _foresee(self, view: JobView) -> None:
        """Put the end of a job's present run, as it looks now, into the event heap."""
        view.version += 1
        end_s = self.now_s + view.remaining_s / view.speed
        if self._step_s is not None:
            end_s = ceil(end_s / self._step_s - STEP_TOLERANCE) * self._step_s
        end_s += self._completion_s
        kind = _COMPLETE
        if view.run_limit_s is not None and view.start_time_s + view.run_limit_s < end_s:
            end_s = view.start_time_s + view.run_limit_s
            kind = EventKind.LIMIT
        self._sequence += 1
        heappush(self._events, (end_s, kind, self._sequence, view, view.version))
        if self._keeps_order:
            self.pools[view.pool].running_order.put(view, self.now_s)  # type: ignore[union-attr]
        phase = view.job.phase
        if phase is not None and not view.unstable:
            to_go_s = max(0.0, phase[0] - (view.job.duration_s - view.remaining_s)) / view.speed
            if self.now_s + to_go_s < end_s:
                self._push(self.now_s + to_go_s, EventKind.PHASE, view, view.version)

    def _begin(self, view: JobView, pool: NodePool) -> None:
        now = self.now_s
        pool.queue.remove(view)
        pool.running[view] = None
        view.state = RunState.RUNNING
        view.queuing_delay_s += now - view.queued_since_s
        view.start_time_s = view.run_since_s = now
        if view.first_start_time_s is None:
            view.first_start_time_s = now

    def _leave(self, view: JobView, reason: StopReason) -> None:
        """Take a job off its GPUs; they are free unless a partner stays, who then runs at full speed."""
        pool = self.pools[view.pool]
        partner = view.partner
        placement = view.placement
        assert placement is not None  # noqa: S101
        self._settle(view)
        if self._recorder is not None:
            self._recorder.stopped(self.now_s, view, pool, reason)
        del pool.running[view]
        if pool.running_order is not None:
            pool.running_order.remove(view)
        self._changed[pool] = None
        if partner is None:
            pool.free.give(placement)
        else:
            self._settle(partner)
            view.partner = partner.partner = None
            if partner.joined and not self.rules.restores_partner:
                partner.stranded = True
            else:
                partner.speed = 1.0
                if partner.remaining_s:  # else its work is done and its end stands
                    self._foresee(partner)
            view.joined = partner.joined = False
        view.speed = 1.0
        if reason != "completed":
            view.stranded = False
        view.placement = None
        view.run_limit_s = None
        view.version += 1

    def _complete(self, view: JobView) -> None:
        bounded = view.run_limit_s is not None
        self._leave(view, "completed")
        view.state = RunState.COMPLETED
        view.overhead_s += self._completion_s
        view.end_time_s = self.now_s
        view.remaining_s = 0.0
        if bounded:
            self._ended_in_profiling.add(view.index)
        self.completed += 1
        if self._learns:
            self.policy.observe_end(view, self.now_s)
        if self.completed % PROGRESS_EVERY == 0:
            self._progress(self.completed, len(self.jobs), self.name)

    def _lose_progress(self, view: JobView) -> None:
        """Have a job start again from zero: all that it held GPUs for is lost, its overheads included."""
        view.lost_s = view.attained_s
        view.overhead_s = 0.0
        view.remaining_s = view.job.duration_s
        view.profile = view.job.profile

    def _stop_at_limit(self, view: JobView, profiled: bool = True) -> None:
        """End a bounded run: its progress is lost, and the job queues again."""
        self._leave(view, "limit")
        self._lose_progress(view)
        view.profiled = profiled
        self._enqueue(view)

    def _change_phase(self, view: JobView) -> None:
        """A job's needs change, and so do the speeds of a pair that it is in."""
        phase = view.job.phase
        assert phase is not None  # noqa: S101
        view.unstable = True
        view.profile = phase[1]
        self._settle(view)
        partner = view.partner
        if partner is not None:
            self._settle(partner)
            view.speed, partner.speed = self._colocation.speeds(view.profile, partner.profile)
            self._foresee(partner)
        self._foresee(view)
        self._changed[self.pools[view.pool]] = None

    def _cancel(self, view: JobView) -> None:
        """A user withdraws a job; nothing happens to one that has ended."""
        if view.state is RunState.PENDING or view.state is RunState.HELD:
            pool = self.pools[view.pool]
            if self._outgrown is not None and view.state is RunState.HELD:
                self._outgrown.forget(view, pool)
            else:
                pool.queue.remove(view)
            view.queuing_delay_s += self.now_s - view.queued_since_s
            self._changed[pool] = None
            if self._recorder is not None:
                self._recorder.stopped(self.now_s, view, pool, "cancelled")
        elif view.state is RunState.RUNNING:
            self._leave(view, "cancelled")
        elif view.state is not RunState.SUBMITTED:
            return
        view.state = RunState.CANCELLED
        view.end_time_s = self.now_s
        self.cancelled += 1

    def _change_cluster(self, change: ClusterChange | Repair) -> None:
        """Nodes come, leave, fail or are repaired; the jobs of a failed node start again from zero."""
        affected = self._nodes.apply(change, self.now_s)
        for pool in affected.pools:
            self._changed[pool] = None
            if self._outgrown is not None and isinstance(change, SizeChange):
                for view in self._outgrown.resized(pool):
                    view.state = RunState.PENDING
                    pool.queue.add(self.policy.priority(view), view)
        for view in affected.killed:
            view.profiled = view.profiled and view.run_limit_s is None  # a killed profiling run shows nothing
            self._leave(view, "failed")
            self._lose_progress(view)
            view.failures += 1
            self._enqueue(view)
        if affected.repair is not None:
            self._push(affected.repair.at_s, EventKind.CLUSTER, affected.repair, 0)

    # -- what a policy asks for ------------------------------------------------------------------------------

    def _apply(self, action: Action) -> None:
        if isinstance(action, Preempt):
            self._preempt(action)
        elif isinstance(action, Colocate):
            self._colocate(action)
        elif isinstance(action, Loan | Reclaim):
            self._move_node(action)
        else:
            raise PolicyError(f"{self.name} asked for {action!r}, which is not an action.")

    def _start(self, action: Start) -> None:
        view = action.job
        if view.state is not RunState.PENDING:
            raise PolicyError(f"{self.name} starts job {view.job.job_id!r}, which is {view.state.value}.")
        pool = self.pools[view.pool]
        placement = action.placement
        placed = placement[0][1] if len(placement) == 1 else sum(gpus for _, gpus in placement)
        if placed != view.gpus:
            raise PolicyError(
                f"{self.name} gives job {view.job.job_id!r} {placed} GPUs; it needs all of its {view.gpus}."
            )
        try:
            pool.free.take(placement)
        except (ValueError, IndexError) as error:
            raise PolicyError(
                f"{self.name} places job {view.job.job_id!r} on taken GPUs of {pool.name!r}: {error}."
            ) from error
        self._begin(view, pool)
        view.placement = placement
        view.run_limit_s = action.limit_s
        if action.limit_s is not None:
            view.profiled = True
        self._foresee(view)
        if self._recorder is not None:
            self._recorder.started(self.now_s, view, pool)

    def _colocate(self, action: Colocate) -> None:
        view, partner = action.job, action.partner
        allowed = (
            view.state is RunState.PENDING
            and partner.state is RunState.RUNNING
            and partner.partner is None
            and not partner.stranded
            and partner.gpus == view.gpus
            and partner.pool == view.pool
            and partner.run_limit_s is None
        )
        if not allowed:
            raise PolicyError(
                f"{self.name} colocates {view!r} with {partner!r}.",
                remedy="The partner must run in the same pool, alone, without a limit, on as many GPUs.",
            )
        self._settle(partner)
        self._begin(view, self.pools[view.pool])
        view.placement = partner.placement
        view.partner, partner.partner = partner, view
        view.joined = True
        view.was_colocated = partner.was_colocated = True
        view.speed, partner.speed = self._colocation.speeds(view.profile, partner.profile)
        self._foresee(view)
        self._foresee(partner)
        if self._recorder is not None:
            self._recorder.started(self.now_s, view, self.pools[view.pool])

    def _preempt(self, action: Preempt) -> None:
        view = action.job
        bounded = view.run_limit_s is not None
        if view.state is not RunState.RUNNING or (bounded and action.keeps_progress):
            raise PolicyError(f"{self.name} preempts {view!r}, which is not a running job without a limit.")
        if bounded:  # cut short: it shows nothing
            self._stop_at_limit(view, profiled=False)
            return
        # The policy is deciding right now; a preemption is its own doing, not news to it. Evicted jobs queue
        # like new ones, and the policy is asked again at once.
        pool = self.pools[view.pool]
        was_news = pool in self._changed
        if action.keeps_progress:
            self._leave(view, "preempted")
            overhead_s = self._costs.preemption_of(view.gpus, self.cluster.gpus_per_node)
            view.remaining_s += overhead_s
            view.overhead_s += overhead_s
        else:
            self._leave(view, "evicted")
            self._lose_progress(view)
        view.preemptions += 1
        self._enqueue(view)
        if action.keeps_progress and not was_news:
            self._changed.pop(pool, None)

    def _move_node(self, action: Loan | Reclaim) -> None:
        """Move a node; the policy is asked again at once in the pool that gains it."""
        try:
            if isinstance(action, Loan):
                action.borrower.borrow(action.lender, action.node)
                self._changed[action.borrower] = None
            else:
                self._changed[action.borrower.give_back(action.node)] = None
        except ValueError as error:
            raise PolicyError(f"{self.name} moves a node that it cannot have: {error}.") from error

    # -- the end ---------------------------------------------------------------------------------------------

    def result(self) -> SimulationResult:
        """Return the schedule; raises PolicyError when a job never completed."""
        outgrown = self._outgrown.jobs() if self._outgrown is not None else []
        held = set(outgrown)
        for view in outgrown:
            view.state = RunState.PENDING  # as the jobs table calls it
        left = [view for view in self.jobs if view.state is not RunState.COMPLETED]
        lost = [view for view in left if view.state is not RunState.CANCELLED and view not in held]
        if lost:
            raise PolicyError(
                f"{self.name} left {len(lost)} of {len(self.jobs)} jobs incomplete, the first: {lost[0]!r}."
            )
        jobs = job_rows(self.jobs, frozenset(self._ended_in_profiling))
        # Colocated jobs hold their GPUs together: each second of the pair counts once.
        held_gpu_s = sum(view.job.gpus * (view.attained_s - view.colocated_s / 2) for view in self.jobs)
        ended = np.array([view.end_time_s is not None for view in self.jobs], dtype=bool)
        on_cpus = np.array([not view.job.gpus for view in self.jobs], dtype=bool)
        replayed = jobs if ended.all() and not on_cpus.any() else jobs[ended & ~on_cpus]
        mean_gpus = self._nodes.mean_gpus(float(replayed["end_time_s"].max()) if len(replayed) else 0.0)
        summary: dict[str, Any] = {
            "policy": self.name,
            "rules": self.rules.name,
            "oracle": self.policy.oracle,
            **schedule_summary(replayed, total_gpus=mean_gpus, held_gpu_s=held_gpu_s),
            "profiling_nodes": sum(self.cluster.partitions.values()),
            "outgrown_jobs": sum(view.job.gpus > 0 for view in outgrown),
            "cpu_jobs": int(on_cpus.sum()),
            "cpu_jobs_mean_queuing_delay_s": mean(jobs["queuing_delay_s"].to_numpy()[on_cpus]),
            "node_failures_suffered": sum(view.failures for view in self.jobs),
            "skipped": {rule: count for rule, count in self.workload.skipped.items() if count},
            "decisions": self.decisions,
            "cpu_s": self._cpu_s,
            "jobs_per_cpu_s": len(self.jobs) / self._cpu_s if self._cpu_s > 0 else 0.0,
        }
        return SimulationResult(jobs, summary, self.workload.origin)
