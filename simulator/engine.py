"""The event-driven engine: exact in time, deterministic, and without knowledge of any policy.

Time jumps from event to event. At each moment the engine first applies everything that happens then, in the
order of `EventKind`, and then asks the policy once. A running job costs nothing between its events.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from time import process_time
from typing import Any

from cluster_logs.errors import BadInputError, LucidError
from cluster_logs.progress import Progress, silent
from simulator.actions import Action, Colocate, Preempt, Start
from simulator.cluster import ClusterSpec
from simulator.colocation import ColocationModel, UtilisationModel
from simulator.event_kinds import EventKind
from simulator.metrics import schedule_summary
from simulator.placement import FreeGpus
from simulator.policies.registry import load_policy
from simulator.policy import Policy
from simulator.result import SimulationResult, job_rows
from simulator.rules import Rules, load_rules
from simulator.snapshot import JobView, NodePool, RunState, Snapshot
from simulator.workload import Workload

PROGRESS_EVERY = 1000  # completed jobs
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
        progress: Progress | None = None,
    ) -> None:
        began = process_time()
        self.rules = load_rules(rules) if isinstance(rules, str) else rules
        self.policy = policy
        self.name = name or type(policy).__name__.lower()
        self.workload = workload.that_fit(cluster)
        if policy.needs_estimates:
            without = [job.job_id for job in self.workload.jobs if job.estimated_duration_s is None]
            if without:
                raise BadInputError(
                    f"{self.name} needs estimated durations, and {len(without)} jobs have none "
                    f"(the first: {without[0]!r}).",
                    remedy="Give estimates, for instance simulator.user_history.user_history_estimates.",
                )
        largest: dict[str, int] = dict.fromkeys(cluster.virtual_clusters, 0)
        for job in self.workload.jobs:
            largest[job.virtual_cluster] = max(largest[job.virtual_cluster], job.gpus)
        self.cluster = policy.prepare(cluster, largest)
        self.pools: dict[str, NodePool] = {
            pool: NodePool(pool, FreeGpus(nodes, cluster.gpus_per_node, self.rules.remainder))
            for pool, nodes in (*self.cluster.virtual_clusters.items(), *self.cluster.partitions.items())
        }
        self.jobs = [JobView(job, index) for index, job in enumerate(self.workload.jobs)]
        self.now_s = 0.0
        self.decisions = 0
        self.completed = 0
        self._colocation = colocation or UtilisationModel()
        self._progress = progress or silent
        self._rank = {pool: i for i, pool in enumerate(self.pools.values())}
        self._changed: dict[NodePool, None] = {}
        self._wakes: dict[NodePool, float] = {}
        self._snapshot = Snapshot(self.pools)
        self._ended_in_profiling: set[int] = set()
        # (time, kind, sequence, subject, version of the job when the event was foreseen)
        self._events: list[tuple[float, int, int, Any, int]] = [
            (view.submit_time_s, int(EventKind.SUBMIT), view.index, view, 0) for view in self.jobs
        ]
        heapify(self._events)
        self._sequence = len(self.jobs)
        self._cpu_s = process_time() - began

    # -- running ---------------------------------------------------------------------------------------------

    def run(self, until_s: float | None = None) -> None:
        """Run to the end, or until the next moment lies after `until_s`."""
        began = process_time()
        while self._events and (until_s is None or self._events[0][0] <= until_s):
            self.step()
        self._cpu_s += process_time() - began

    def step(self) -> None:
        """Let everything of the next moment happen, and let the policy decide."""
        events = self._events
        now = self.now_s = events[0][0]
        for _ in range(MAX_DECISIONS_AT_ONE_MOMENT):
            while events and events[0][0] == now:
                _, kind, _, subject, version = heappop(events)
                if kind == EventKind.SUBMIT:
                    self._enqueue(subject)
                elif kind == EventKind.WAKE:
                    if self._wakes.get(subject) == now:
                        del self._wakes[subject]
                        self._changed[subject] = None
                elif subject.version == version:
                    if kind == EventKind.COMPLETE:
                        self._complete(subject)
                    else:
                        self._stop_at_limit(subject)
            if self._changed:
                self._decide()
            if not events or events[0][0] != now:
                return
        raise PolicyError(f"{self.name} made {MAX_DECISIONS_AT_ONE_MOMENT} decisions at {now} s without end.")

    def _decide(self) -> None:
        now = self.now_s
        policy = self.policy
        if policy.round_s is not None and now % policy.round_s:
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
            self._apply(action)
        for pool in changed:
            later = policy.next_change_s(pool, now)
            if later is not None:
                self._wake(pool, later)

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

    def _push(self, at_s: float, kind: EventKind, subject: Any, version: int) -> None:
        self._sequence += 1
        heappush(self._events, (at_s, int(kind), self._sequence, subject, version))

    # -- what happens to a job -------------------------------------------------------------------------------

    def _enqueue(self, view: JobView) -> None:
        name = self.policy.pool_of(view)
        pool = self.pools.get(name)
        if pool is None:
            raise PolicyError(f"{self.name} sends job {view.job.job_id!r} to {name!r}, which does not exist.")
        view.state = RunState.PENDING
        view.pool = name
        view.queued_since_s = self.now_s
        pool.queue.add(self.policy.priority(view), view)
        self._changed[pool] = None

    def _settle(self, view: JobView) -> None:
        """Write down a running job's progress as of now."""
        elapsed = self.now_s - view.run_since_s
        if elapsed:
            view.remaining_s = max(0.0, view.remaining_s - elapsed * view.speed)
            view.attained_s += elapsed
            if view.partner is not None:
                view.colocated_s += elapsed
            view.run_since_s = self.now_s

    def _foresee(self, view: JobView) -> None:
        """Put the end of a job's present run, as it looks now, into the event heap."""
        view.version += 1
        end_s = self.now_s + view.remaining_s / view.speed + self.policy.costs.completion_s
        if view.run_limit_s is not None and view.start_time_s + view.run_limit_s < end_s:
            self._push(view.start_time_s + view.run_limit_s, EventKind.LIMIT, view, view.version)
        else:
            self._push(end_s, EventKind.COMPLETE, view, view.version)

    def _begin(self, view: JobView, pool: NodePool) -> None:
        now = self.now_s
        pool.queue.remove(view)
        pool.running[view] = None
        view.state = RunState.RUNNING
        view.queuing_delay_s += now - view.queued_since_s
        view.start_time_s = view.run_since_s = now
        if view.first_start_time_s is None:
            view.first_start_time_s = now

    def _leave(self, view: JobView) -> None:
        """Take a job off its GPUs; they are free unless a partner stays, who then runs at full speed."""
        self._settle(view)
        pool = self.pools[view.pool]
        del pool.running[view]
        self._changed[pool] = None
        partner = view.partner
        placement = view.placement
        assert placement is not None  # noqa: S101
        if partner is None:
            pool.free.give(placement)
        else:
            self._settle(partner)
            view.partner = partner.partner = None
            partner.speed = view.speed = 1.0
            self._foresee(partner)
        view.placement = None
        view.run_limit_s = None
        view.version += 1

    def _complete(self, view: JobView) -> None:
        bounded = view.run_limit_s is not None
        self._leave(view)
        view.state = RunState.COMPLETED
        view.overhead_s += self.policy.costs.completion_s
        view.end_time_s = self.now_s
        view.remaining_s = 0.0
        if bounded:
            self._ended_in_profiling.add(view.index)
        self.completed += 1
        if self.completed % PROGRESS_EVERY == 0:
            self._progress(self.completed, len(self.jobs), self.name)

    def _stop_at_limit(self, view: JobView) -> None:
        """End a bounded run: its progress is lost, and the job queues again."""
        self._leave(view)
        view.lost_s += self.now_s - view.start_time_s
        view.remaining_s = view.job.duration_s
        view.profiled = True
        self._enqueue(view)

    # -- what a policy asks for ------------------------------------------------------------------------------

    def _apply(self, action: Action) -> None:
        if isinstance(action, Start):
            self._start(action)
        elif isinstance(action, Preempt):
            self._preempt(action)
        elif isinstance(action, Colocate):
            self._colocate(action)
        else:
            raise PolicyError(f"{self.name} asked for {action!r}, which is not an action.")

    def _start(self, action: Start) -> None:
        view = action.job
        if view.state is not RunState.PENDING:
            raise PolicyError(f"{self.name} starts job {view.job.job_id!r}, which is {view.state.value}.")
        pool = self.pools[view.pool]
        placed = 0
        for _, gpus in action.placement:
            placed += gpus
        if placed != view.gpus:
            raise PolicyError(
                f"{self.name} gives job {view.job.job_id!r} {placed} GPUs; it needs all of its {view.gpus}."
            )
        try:
            pool.free.take(action.placement)
        except (ValueError, IndexError) as error:
            raise PolicyError(
                f"{self.name} places job {view.job.job_id!r} on taken GPUs of {pool.name!r}: {error}."
            ) from error
        self._begin(view, pool)
        view.placement = action.placement
        view.run_limit_s = action.limit_s
        if action.limit_s is not None:
            view.profiled = True
        self._foresee(view)

    def _colocate(self, action: Colocate) -> None:
        view, partner = action.job, action.partner
        allowed = (
            view.state is RunState.PENDING
            and partner.state is RunState.RUNNING
            and partner.partner is None
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
        view.was_colocated = partner.was_colocated = True
        view.speed, partner.speed = self._colocation.speeds(view.profile, partner.profile)
        self._foresee(view)
        self._foresee(partner)

    def _preempt(self, action: Preempt) -> None:
        view = action.job
        if view.state is not RunState.RUNNING or view.run_limit_s is not None:
            raise PolicyError(f"{self.name} preempts {view!r}, which is not a running job without a limit.")
        self._leave(view)
        # The policy is deciding right now; a preemption is its own doing, not news to it.
        overhead_s = self.policy.costs.preemption_of(view.gpus, self.cluster.gpus_per_node)
        view.remaining_s += overhead_s
        view.overhead_s += overhead_s
        view.preemptions += 1
        self._enqueue(view)
        del self._changed[self.pools[view.pool]]

    # -- the end ---------------------------------------------------------------------------------------------

    def result(self) -> SimulationResult:
        """Return the schedule; raises PolicyError when a job never completed."""
        if self.completed != len(self.jobs):
            left = [view for view in self.jobs if view.state is not RunState.COMPLETED]
            raise PolicyError(
                f"{self.name} left {len(left)} of {len(self.jobs)} jobs incomplete, the first: {left[0]!r}."
            )
        jobs = job_rows(self.jobs, frozenset(self._ended_in_profiling))
        # Colocated jobs hold their GPUs together: each second of the pair counts once.
        held_gpu_s = sum(view.gpus * (view.attained_s - view.colocated_s / 2) for view in self.jobs)
        summary: dict[str, Any] = {
            "policy": self.name,
            "rules": self.rules.name,
            "oracle": self.policy.oracle,
            **schedule_summary(jobs, total_gpus=self.cluster.total_gpus, held_gpu_s=held_gpu_s),
            "profiling_nodes": sum(self.cluster.partitions.values()),
            "skipped": {rule: count for rule, count in self.workload.skipped.items() if count},
            "decisions": self.decisions,
            "cpu_s": self._cpu_s,
            "jobs_per_cpu_s": len(self.jobs) / self._cpu_s if self._cpu_s > 0 else 0.0,
        }
        return SimulationResult(jobs, summary, self.workload.origin)


def simulate(
    workload: Workload,
    cluster: ClusterSpec,
    policy: str | Policy,
    *,
    rules: Rules | str = "default",
    settings: Mapping[str, Any] | None = None,
    colocation: ColocationModel | None = None,
    progress: Progress | None = None,
) -> SimulationResult:
    """Replay a workload under a policy.

    A policy given by name runs with the rule set's settings for it, changed by `settings`; a policy given as
    an object runs as it is. `colocation` says how fast jobs run that share GPUs. Jobs that could never start
    are left out and counted in `summary["skipped"]`. Raises PolicyError when the policy breaks the rules.
    """
    chosen = load_rules(rules) if isinstance(rules, str) else rules
    name: str | None = None
    if isinstance(policy, str):
        name = policy
        policy = load_policy(name, {**chosen.policy_settings.get(name, {}), **(settings or {})})
    elif settings:
        raise BadInputError("Settings were given for a policy that is already made.")
    simulation = Simulation(
        workload, cluster, policy, name=name, rules=chosen, colocation=colocation, progress=progress
    )
    simulation.run()
    if progress is not None:
        progress(simulation.completed, len(simulation.jobs), simulation.name)
    return simulation.result()


def run_policies(
    workload: Workload,
    cluster: ClusterSpec,
    policies: Sequence[str],
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    rules: Rules | str = "default",
    colocation: ColocationModel | None = None,
    progress: Progress | None = None,
) -> dict[str, SimulationResult]:
    """Replay the same workload under each policy by name; `settings` by policy name. Rows align."""
    return {
        name: simulate(
            workload,
            cluster,
            name,
            rules=rules,
            settings=(settings or {}).get(name),
            colocation=colocation,
            progress=progress,
        )
        for name in policies
    }
