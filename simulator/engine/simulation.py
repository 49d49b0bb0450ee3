"""The event-driven engine: exact in time, deterministic, and without knowledge of any policy.

Time jumps from event to event. At each moment the engine first applies everything that happens then, in the
order of `EventKind`, and then asks the policy once. A running job costs nothing between its events.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop
from math import inf
from operator import attrgetter
from time import process_time
from typing import Any

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from simulator.actions import PolicyError, Start
from simulator.cluster.changes import ClusterChange, Repair, SizeChange
from simulator.engine.action_taker import ActionTaker
from simulator.engine.job_lifecycle import JobLifecycle, UnplaceableJobs
from simulator.engine.node_inventory import NodeInventory, beside_lender, cpu_pool, make_pools
from simulator.job_view import JobView, RunState
from simulator.policy import Policy, refuse_missing_estimates
from simulator.recorder import Recorder, together
from simulator.results.result import ScheduleColumns, SimulationResult, schedule_of
from simulator.scenario.agenda import Agenda, EventKind
from simulator.scenario.companion import Attached, Beginning, CompanionEvent
from simulator.scenario.initial_state import (
    Foreseen,
    InitialState,
    begin_in,
    copied,
    foreseen_of,
    handed_over,
    jobs_begun,
    nodes_of,
    pool_with,
    refuse_lasting_sleep,
)
from simulator.scenario.placed_workers import PlacedWorkers
from simulator.scenario.scenario import Scenario, refuse_unequal_nodes
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.columns import WorkloadColumns

MAX_DECISIONS_AT_ONE_MOMENT = 10_000  # a policy that starts and preempts for ever is stopped


class Simulation:
    """One policy on one workload and cluster: look at `now_s`, `step()`, `run(until_s)`, then `result()`.

    With an initial state the cluster has the partitions that are in use, and a policy sets no more nodes
    aside.
    """

    def __init__(  # noqa: PLR0915
        self,
        scenario: Scenario,
        policy: Policy,
        *,
        name: str | None = None,
        recorder: Recorder | None = None,
        progress: Progress | None = None,
    ) -> None:
        began = process_time()
        cluster, changes, initial = scenario.cluster, scenario.changes, scenario.initial
        self.rules, self.lender = scenario.rules, scenario.lender
        self._counted_from_s = scenario.counted_from_s
        self.policy = policy
        self.name = name or type(policy).__name__.lower()
        self.workload = scenario.workload.that_fit(cluster, changes).capped(cluster, changes)
        begun = jobs_begun(initial, self.workload)
        refuse_unequal_nodes(scenario, policy, self.name)
        largest = self.workload.largest_gpus(cluster)
        if initial is not None:  # no node is to spare of a cluster that is in use
            largest = {name: cluster.gpus_of(name) for name in cluster.virtual_clusters}
        self.cluster = policy.prepare(cluster, largest)
        whole = beside_lender(self.cluster, self.lender)
        self.pools = make_pools(whole, cluster.cpu_cores_per_node, self.rules.remainder)
        self.jobs = sorted(begun.values(), key=attrgetter("index"))
        first = 0
        if initial is not None:
            first = max(initial.submitted, self.jobs[-1].index + 1 if self.jobs else 0)
        self.jobs += [JobView(job, index) for index, job in enumerate(self.workload.jobs, start=first)]
        if cluster.shared:
            for view in self.jobs:
                view.home = cluster.home_of(view.job.virtual_cluster)
        if policy.needs_estimates:
            refuse_missing_estimates(self.jobs, self.name)
            self.rules.check_estimates(self.workload, self.name)
        self.now_s = 0.0
        placed_workers = PlacedWorkers(self.lender)
        if initial is not None:
            refuse_lasting_sleep(initial, scenario.companions)
            self.now_s = initial.at_s
            running = [begun[view] for view in initial.running]
            begin_in(self.pools, initial, running, placed_workers, self.rules.remainder)
        self.decisions = 0
        self._nodes = NodeInventory(self.pools, cluster, self.cluster)
        resized = {change.virtual_cluster for change in changes if isinstance(change, SizeChange)}
        names = [name for base in sorted(resized) for name in (base, cpu_pool(base)) if name in self.pools]
        self._unplaceable = UnplaceableJobs(self.pools[name] for name in names) if names else None
        self._agenda = Agenda()
        self._attached = self._attach(scenario)
        # Asked at every moment; what a companion does not override is not called.
        self._look = [each.look for each in self._attached.values() if type(each).look is not Attached.look]
        self._recorder = together([*([] if recorder is None else [recorder]), *self._attached.values()])
        # Not bound to self: a finished simulation goes at once, with all of its jobs.
        report_progress, label, count = progress or silent, self.name, len(self.jobs)
        self._lifecycle = JobLifecycle(
            self.name,
            scenario,
            self.pools,
            policy,
            self._agenda,
            unplaceable=self._unplaceable,
            recorder=self._recorder,
            progress=lambda completed: report_progress(completed, count, label),
        )
        self._lifecycle.now_s = self.now_s
        self._taker = ActionTaker(self._lifecycle, policy.costs, self.cluster.gpus_per_node, placed_workers)
        self._start = self._taker.start
        # What a policy does not override is not called.
        self._asks_for_wakes = policy.overrides("next_change_s")
        self._rank = {pool: i for i, pool in enumerate(self.pools.values())}
        self._changed = self._lifecycle.changed
        self._wakes: dict[NodePool, float] = {}
        self._snapshot = Snapshot(
            self.pools,
            forecast=scenario.forecast,
            believed_pairs=scenario.believed_pairs,
            lender=self.lender,
        )
        self._jobs_may_leave = any(view.job.cancel_time_s is not None for view in self.jobs)
        self._submitted = len(begun)  # jobs are sorted by submission: these have been, the others are to come
        self._agenda.push_given(changes, self.jobs, None if initial is None else initial.at_s)
        if initial is not None:
            self._go_on_from(initial, begun)
        elif self.lender is not None:  # the policy is asked about its servers before any job comes
            self._wakes[self.pools[self.lender.name]] = 0.0
            self._agenda.push(0.0, EventKind.WAKE, self.pools[self.lender.name])
        for attached in self._attached.values():
            attached.begin()
        self._cpu_s = process_time() - began

    def _attach(self, scenario: Scenario) -> dict[str, Attached]:
        """Return what a scenario's companions are in this simulation, by their keys."""
        memories = {} if scenario.initial is None else scenario.initial.companions
        origin = scenario.workload.origin
        return {
            companion.key: companion.attach(
                Beginning(
                    pools=self.pools,
                    virtual_clusters=tuple(self.cluster.virtual_clusters),
                    jobs=self.jobs,
                    agenda=self._agenda,
                    now_s=self.now_s,
                    clock_s=0.0 if origin is None else origin.timestamp(),
                    counted_from_s=scenario.counted_from_s,
                    lender=self.lender,
                    memory=memories.get(companion.key),
                )
            )
            for companion in scenario.companions
        }

    def _go_on_from(self, initial: InitialState, begun: Mapping[JobView, JobView]) -> None:
        """Queue the jobs that wait, and push the events that are due."""
        lifecycle, agenda = self._lifecycle, self._agenda
        self._nodes.failures = initial.failures
        self._nodes.set_aside |= initial.set_aside
        for view in map(begun.__getitem__, initial.waiting):
            lifecycle.waits_on(view, pool_with(self.pools, view))
        foreseen: Sequence[Foreseen] | None = initial.foreseen
        if foreseen is None:
            foreseen = [(initial.at_s, EventKind.WAKE, name) for name in self.pools]
        ending: set[JobView] = set()
        for at_s, kind, subject in foreseen:
            if isinstance(subject, JobView):
                view = begun[subject]
                agenda.push(at_s, kind, view, view.version)
                if kind is not EventKind.PHASE:
                    ending.add(view)
            elif isinstance(subject, str):
                self._wakes[self.pools[subject]] = at_s
                agenda.push(at_s, kind, self.pools[subject])
            else:
                agenda.push(at_s, kind, subject)
        for view in map(begun.__getitem__, initial.running):
            view.state = RunState.RUNNING
            if view not in ending:
                lifecycle.settle(view)
                lifecycle.foresee(view)
            else:
                lifecycle.keep_order(view)
        if agenda.events and agenda.events[0][0] < initial.at_s:
            raise BadInputError(
                f"Something is to happen at {agenda.events[0][0]} s, before {initial.at_s} s."
            )
        places = {nodes: self.pools[name] for name, nodes in initial.nodes.items()}
        self.policy.resume(self.pools, handed_over(initial.history, {**begun, **places}))

    def state(self) -> InitialState:
        """Return the cluster as it is now, for simulations that go on from here.

        They are given the jobs that are yet to be submitted (or others), the cluster that is simulated
        (`self.cluster`), and the same rules, changes and beliefs. Costs time in proportion to the jobs that
        wait and run, and to what is foreseen.
        """
        running = [view for pool in self.pools.values() for view in pool.running]
        held = [] if self._unplaceable is None else self._unplaceable.jobs()
        queued = [view for pool in self.pools.values() for view in pool.queue.by_arrival()]
        copies = copied((*running, *held, *queued))
        foreseen = foreseen_of(self._agenda.events, self._wakes, self._changed, copies)
        nodes = {name: nodes_of(pool) for name, pool in self.pools.items()}
        places = {pool: nodes[name] for name, pool in self.pools.items()}
        return InitialState(
            at_s=self.now_s,
            running=tuple(map(copies.__getitem__, running)),
            waiting=tuple(map(copies.__getitem__, (*held, *queued))),
            nodes=nodes,
            foreseen=(*((self.now_s, EventKind.WAKE, pool.name) for pool in self._changed), *foreseen),
            failures=self._nodes.failures,
            set_aside=dict(self._nodes.set_aside),
            submitted=self.jobs[self._submitted - 1].index + 1 if self._submitted else 0,
            history=handed_over(self.policy.history(), {**copies, **places}),
            companions={key: attached.memory() for key, attached in self._attached.items()},
        )

    @property
    def completed(self) -> int:
        """Jobs that have ended so far."""
        return self._lifecycle.completed

    @property
    def cancelled(self) -> int:
        """Jobs that left the queue without a run so far."""
        return self._lifecycle.cancelled

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
        events, jobs, lifecycle = self._agenda.events, self.jobs, self._lifecycle
        complete, enqueue, look = lifecycle.complete, lifecycle.enqueue, self._look
        count, at = len(jobs), self._submitted
        taken = 0
        while taken < moments and lifecycle.completed + lifecycle.cancelled < count:
            now = jobs[at].submit_time_s if at < count else inf
            if events and events[0][0] < now:
                now = events[0][0]
            if now > until_s or now == inf or (at == count and self._nothing_can_start(now)):
                break
            self.now_s = lifecycle.now_s = now
            taken += 1
            for _ in range(MAX_DECISIONS_AT_ONE_MOMENT):
                # COMPLETE, the most frequent kind, is 0. An event of an older version of a job is void:
                # to leave it in the heap until now costs less than to search the heap for it.
                while events and events[0][0] == now:
                    _, kind, _, subject, version = heappop(events)
                    if kind:
                        self._happen(kind, subject, version)
                    elif subject.version == version:
                        complete(subject)
                # Submissions are not in the heap: jobs are sorted. So a WAKE comes before them, against its
                # number; it only marks its pool, and the policy is asked after both.
                while at < count and jobs[at].submit_time_s == now:
                    at += 1
                    self._submitted = at
                    if jobs[at - 1].state is RunState.SUBMITTED:
                        enqueue(jobs[at - 1])
                while self._changed and not self._decide():
                    pass  # jobs left instead of starting: the policy is asked as if they had not been there
                if (
                    not self._changed
                    and (not events or events[0][0] != now)
                    # A list and not any(): each companion looks, whether or not one before it has acted.
                    and not (look and True in [each(now, more_jobs=at < count) for each in look])
                ):
                    break
            else:
                raise PolicyError(
                    f"{self.name} made {MAX_DECISIONS_AT_ONE_MOMENT} decisions at {now} s without end."
                )
        self._cpu_s += process_time() - began
        return taken

    def _nothing_can_start(self, now_s: float) -> bool:
        """Return whether no job that is left can ever start again: too large, or left waiting for ever."""
        for attached in self._attached.values():
            if attached.nothing_starts(now_s, self.pools, self._agenda.events):
                return True
        if self._unplaceable is None:
            return False
        over = self._lifecycle.completed + self._lifecycle.cancelled
        if over + len(self._unplaceable.jobs()) < len(self.jobs):
            return False
        return all(kind == EventKind.WAKE for _, kind, *_ in self._agenda.events)

    def _happen(self, kind: int, subject: Any, version: int) -> None:
        """Let one of the rarer events happen."""
        if kind == EventKind.WAKE:
            if self._wakes.get(subject) == self.now_s:
                del self._wakes[subject]
                self._changed[subject] = None
        elif kind == EventKind.CANCEL:
            self._lifecycle.cancel(subject)
        elif kind == EventKind.CLUSTER:
            self._change_cluster(subject)
        elif subject.version == version:
            if kind == EventKind.LIMIT:
                self._lifecycle.stop_at_limit(subject)
            else:
                self._lifecycle.change_phase(subject)

    def _decide(self) -> bool:
        """Ask the policy, and do what it says; False: withdrawn jobs were to start, and left instead."""
        now = self.now_s
        policy = self.policy
        round_s = policy.round_s
        # Between two rounds nothing is decided, and what has changed is kept for the next one.
        if round_s is not None and now % round_s:
            for pool in self._changed:
                self._wake(pool, now)
            self._changed.clear()
            return True
        changed = tuple(self._changed)
        if len(changed) > 1:
            # By pool: in which order things happened at one moment must not show in a decision.
            changed = tuple(sorted(changed, key=self._rank.__getitem__))
        self._changed.clear()
        snapshot = self._snapshot
        snapshot.now_s = now
        snapshot.changed = changed
        self.decisions += 1
        actions = policy.decide(snapshot)
        if self._jobs_may_leave and self._lifecycle.leave_instead_of_starting(actions):
            for pool in changed:
                self._changed[pool] = None
                # Counts as GPUs that came free: policies take what did not fit to fit no better until some
                # do, and count the preemptions that they decide beforehand.
                pool.free.gains += 1 + len(actions)
            return False
        for action in actions:
            if type(action) is Start:
                self._start(action)
            else:
                self._taker.apply(action)
        if self._asks_for_wakes:
            for pool in changed:
                later = policy.next_change_s(pool, now)
                if later is not None:
                    self._wake(pool, later)
        if self._recorder is not None:
            self._recorder.decided(now, changed)
        return True

    def _wake(self, pool: NodePool, at_s: float) -> None:
        """Decide again in a pool at `at_s`, or at the first round from then on, but later than now."""
        round_s = self.policy.round_s
        if round_s is not None:
            # Rounded up. Where that gives the present round, it has just been decided in: the next one.
            at_s = -(-at_s // round_s) * round_s
            if at_s <= self.now_s:
                at_s += round_s
        elif at_s <= self.now_s:
            return
        pending = self._wakes.get(pool)
        if pending is None or at_s < pending:
            self._wakes[pool] = at_s
            self._agenda.push(at_s, EventKind.WAKE, pool)

    def _change_cluster(self, change: ClusterChange | Repair | CompanionEvent) -> None:
        """Nodes come, leave, fail or are repaired, and jobs of a failed node start again from zero; or what a
        companion foresaw happens.
        """
        if isinstance(change, CompanionEvent):
            attached = self._attached.get(change.companion)
            if attached is not None:
                self._changed.update(dict.fromkeys(attached.happen(change, self.now_s)))
            return
        affected = self._nodes.apply(change, self.now_s)
        for pool in affected.pools:
            self._changed[pool] = None
            if self._unplaceable is not None and isinstance(change, SizeChange):
                for view in self._unplaceable.resized(pool):
                    self._lifecycle.waits_on(view, pool)
        for view in affected.killed:
            self._lifecycle.fail(view)
        for attached in self._attached.values():
            attached.changed(affected.pools)
        if affected.repair is not None:
            self._agenda.push(affected.repair.at_s, EventKind.CLUSTER, affected.repair)

    # -- the end ---------------------------------------------------------------------------------------------

    def ended_jobs(self) -> list[JobView]:
        """Return all jobs with their times, in the workload's order.

        Raises PolicyError when a job never completed.
        """
        self._held_to_the_end()
        return self.jobs

    def _warm_up(self, jobs: int) -> dict[str, Any]:
        """Return what a summary says of the warm-up; nothing without one."""
        if self._counted_from_s is None:
            return {}
        return {"warm_up_jobs": jobs, "counted_from_s": self._counted_from_s}

    def counted_jobs(self) -> list[JobView]:
        """Return the jobs that are no warm-up, in the workload's order."""
        if self._counted_from_s is None:
            return self.jobs
        return [view for view in self.jobs if view.submit_time_s >= self._counted_from_s]

    def _columns_of(self, counted: Sequence[JobView]) -> WorkloadColumns:
        """Return what the jobs that count were to begin with."""
        if len(self.jobs) == len(self.workload):
            return self.workload.columns[len(self.jobs) - len(counted) :]
        return WorkloadColumns.of([view.job for view in counted])  # some had begun

    def _held_to_the_end(self) -> None:
        """Raise PolicyError when a job never ended that its virtual cluster has not outgrown."""
        unplaceable = self._unplaceable.jobs() if self._unplaceable is not None else []
        held = set(unplaceable)
        for view in unplaceable:
            view.state = RunState.PENDING  # as the jobs table calls it
        incomplete = [view for view in self.jobs if view.state is not RunState.COMPLETED]
        lost = [view for view in incomplete if view.state is not RunState.CANCELLED and view not in held]
        if lost:
            raise PolicyError(
                f"{self.name} left {len(lost)} of {len(self.jobs)} jobs incomplete, the first: {lost[0]!r}."
            )

    def result(self) -> SimulationResult:
        """Return the schedule; raises PolicyError when a job never completed."""
        self._held_to_the_end()
        counted = self.counted_jobs()
        warm_up_jobs = len(self.jobs) - len(counted)
        own_gpus = partial(self._nodes.mean_gpus, from_s=self._counted_from_s or 0.0)
        mean_gpus: Callable[[float], float] = own_gpus
        for attached in self._attached.values():
            mean_gpus = attached.mean_gpus(mean_gpus)
        jobs, figures = schedule_of(
            self._columns_of(counted),
            ScheduleColumns.of(counted, self._lifecycle.ended_in_profiling),
            mean_gpus=mean_gpus,
        )
        summary: dict[str, Any] = {
            "policy": self.name,
            "rules": self.rules.name,
            "oracle": self.policy.oracle,
            **figures,
            **self._warm_up(warm_up_jobs),
            "profiling_nodes": sum(self.cluster.partitions.values()),
            "skipped": {rule: count for rule, count in self.workload.skipped.items() if count},
            "decisions": self.decisions,
            "engine": "python",
            "cpu_s": self._cpu_s,
            "jobs_per_cpu_s": len(self.jobs) / self._cpu_s if self._cpu_s > 0 else 0.0,
        }
        kept = {}
        for key, attached in self._attached.items():
            summary |= attached.summary(self.now_s, own_gpus(self.now_s), counted)
            kept[key] = attached.kept()
        return SimulationResult(
            jobs,
            summary,
            self.workload.origin,
            kept=kept,
            warm_up_jobs=warm_up_jobs,
            counted_from_s=self._counted_from_s,
        )
