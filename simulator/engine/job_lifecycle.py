"""The lifecycle of jobs in a simulation: they queue, run, make progress, end, fail and are withdrawn.

All of it is written into their views (`simulator.job_view.JobView`), and the ends that follow from it onto
the agenda.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappush

from simulator.actions import Action, Colocate, PolicyError, Start
from simulator.cluster.placement import NOWHERE
from simulator.engine.node_inventory import cpu_pool
from simulator.job_view import JobView, RunState
from simulator.policy import Policy
from simulator.recorder import Recorder, StopReason
from simulator.running_order import RunningOrder
from simulator.scenario.agenda import Agenda, EventKind
from simulator.scenario.rules import Rules
from simulator.scenario.scenario import Scenario
from simulator.snapshot import NodePool
from simulator.workload.colocation import ColocationModel, SummedUtilisation

PROGRESS_EVERY = 1000  # completed jobs
_COMPLETE = int(EventKind.COMPLETE)


class UnplaceableJobs:
    """Jobs that are larger than their virtual cluster is at present, by pool.

    They wait beside the queue until it has grown again: a policy that serves its queue in order would
    otherwise stop for ever at a job that cannot run. Nodes that failed or are lent count: they come back.
    Only pools that change in size are watched.
    """

    def __init__(self, pools: Iterable[NodePool]) -> None:
        self._fit = {pool: pool.gpus_when_whole() for pool in pools}
        self._held: dict[NodePool, dict[JobView, None]] = {pool: {} for pool in self._fit}

    def hold(self, job: JobView, pool: NodePool) -> bool:
        """Hold a job that begins to wait, if the pool is too small for it; say whether."""
        if job.gpus <= self._fit.get(pool, job.gpus):
            return False
        job.state = RunState.HELD
        self._held[pool][job] = None
        return True

    def resized(self, pool: NodePool) -> list[JobView]:
        """Hold the queued jobs that no longer fit, and return those held that now do, as they came."""
        fit = self._fit[pool] = pool.gpus_when_whole()
        held = self._held[pool]
        back = [job for job in held if job.gpus <= fit]
        for job in back:
            del held[job]
        for job in [job for job in pool.queue if job.gpus > fit]:
            pool.queue.remove(job)
            self.hold(job, pool)
        return back

    def forget(self, job: JobView, pool: NodePool) -> None:
        """Release a held job that leaves."""
        del self._held[pool][job]

    def jobs(self) -> list[JobView]:
        """Return all that are held."""
        return [job for held in self._held.values() for job in held]


class JobLifecycle:
    """The jobs of one simulation. `now_s` is the simulation's, `changed` are pools to decide in."""

    def __init__(
        self,
        name: str,
        scenario: Scenario,
        pools: Mapping[str, NodePool],
        policy: Policy,
        agenda: Agenda,
        *,
        unplaceable: UnplaceableJobs | None,
        recorder: Recorder | None,
        progress: Callable[[int], None],
    ) -> None:
        """`progress` is called now and then with the number of completed jobs."""
        rules = scenario.rules
        self.name = name
        self.pools = pools
        self.policy = policy
        self.colocation: ColocationModel = rules.pair_speeds(scenario.colocation or SummedUtilisation())
        self.agenda = agenda
        self._events, self._next_number = agenda.events, agenda.next_number
        self.unplaceable = unplaceable
        self.recorder = recorder
        self.now_s = 0.0
        self.changed: dict[NodePool, None] = {}
        self.completed = 0
        self.cancelled = 0
        self.ended_in_profiling: set[int] = set()
        self._progress = progress
        self._completion_s = policy.costs.completion_s
        self._rules = rules
        self._moves_ends = type(rules).end_of_run_s is not Rules.end_of_run_s
        # What a policy does not override is not called: these are asked at each event.
        self._chooses_pool = policy.overrides("pool_of")
        self._keeps_order = policy.overrides("running_key")
        if self._keeps_order:
            for pool in pools.values():
                pool.running_order = RunningOrder(policy.running_key)
        self._in_order = policy.in_order
        self._has_masks = any(pool.masks for pool in pools.values())
        self._learns = policy.overrides("observe_end")

    # -- waiting ---------------------------------------------------------------------------------------------

    def enqueue(self, view: JobView) -> None:
        """A job begins to wait."""
        if not view.job.gpus:
            name = cpu_pool(view.home)
        elif self._chooses_pool:
            name = self.policy.pool_of(view)
        else:
            name = view.home
        pool = self.pools.get(name)
        if pool is None:
            raise PolicyError(f"{self.name} sends job {view.job.job_id!r} to {name!r}, which does not exist.")
        view.state = RunState.PENDING
        view.pool = name
        if self._has_masks:
            view.nodes = pool.masks.get(view.job.virtual_cluster)
        view.queued_since_s = self.now_s
        if self.unplaceable is None or not self.unplaceable.hold(view, pool):
            pool.queue.add(self.policy.priority(view), view)
        waits_its_turn = self._in_order and pool.queue.head() is not view and not pool.masks
        if not waits_its_turn:
            self.changed[pool] = None
        if self.recorder is not None:
            self.recorder.queued(self.now_s, view, pool)
            if waits_its_turn and pool not in self.changed:
                # A policy that goes by the order need not be asked: the job ahead still comes first.
                self.recorder.decided(self.now_s, (pool,))

    def waits_on(self, view: JobView, pool: NodePool) -> None:
        """A job waits that began to before the simulation did, or that its pool had no room for."""
        view.state = RunState.PENDING
        if self._has_masks:
            view.nodes = pool.masks.get(view.job.virtual_cluster)
        if self.unplaceable is None or not self.unplaceable.hold(view, pool):
            pool.queue.add(self.policy.priority(view), view)

    def leave_instead_of_starting(self, actions: Sequence[Action]) -> bool:
        """Have the withdrawn jobs leave that a policy would start; return whether there were any.

        How long they would have run is unknown, so they take no GPU. What else the policy decided it decided
        for a cluster in which they run: nothing of it is done.
        """
        leaving = [
            action.job
            for action in actions
            if isinstance(action, Start | Colocate) and action.job.job.cancel_time_s is not None
        ]
        for view in leaving:
            self.cancel(view)
        return bool(leaving)

    def cancel(self, view: JobView) -> None:
        """A withdrawn job leaves the queue; nothing happens to one that has left."""
        if view.state is RunState.PENDING or view.state is RunState.HELD:
            pool = self.pools[view.pool]
            if self.unplaceable is not None and view.state is RunState.HELD:
                self.unplaceable.forget(view, pool)
            else:
                pool.queue.remove(view)
            view.queuing_delay_s += self.now_s - view.queued_since_s
            self.changed[pool] = None
            if self.recorder is not None:
                self.recorder.stopped(self.now_s, view, pool, "cancelled")
        elif view.state is not RunState.SUBMITTED:
            return
        view.state = RunState.CANCELLED
        view.end_time_s = self.now_s
        self.cancelled += 1

    # -- running ---------------------------------------------------------------------------------------------

    def begin(self, view: JobView, pool: NodePool) -> None:
        """A job waits no longer; where it runs is the caller's to say."""
        now = self.now_s
        pool.queue.remove(view)
        pool.running[view] = None
        view.state = RunState.RUNNING
        view.queuing_delay_s += now - view.queued_since_s
        view.start_time_s = view.run_since_s = now
        if view.first_start_time_s is None:
            view.first_start_time_s = now

    def settle(self, view: JobView) -> None:
        """Write down a running job's progress as of now."""
        elapsed = self.now_s - view.run_since_s
        if elapsed:
            worked = elapsed
            if view.elastic is not None:
                paused = view.elastic.pass_time(elapsed, view.gpus - view.held_gpus)
                view.overhead_s += paused
                worked -= paused
            remaining_s = view.remaining_s - worked * view.speed
            view.remaining_s = remaining_s if remaining_s > 0 else 0.0
            view.attained_s += elapsed
            if view.partner is not None:
                view.colocated_s += elapsed
            view.run_since_s = self.now_s

    def foresee(self, view: JobView) -> None:
        """Put the end of a job's present run, as it looks now, on the agenda."""
        # Voids the end that was foreseen before, which stays on the agenda.
        view.version = version = view.version + 1
        end_s = self.now_s + view.remaining_s / view.speed
        if view.elastic is not None:
            end_s += view.elastic.pause_s
        if self._moves_ends:
            end_s = self._rules.end_of_run_s(end_s)
        end_s += self._completion_s
        kind = _COMPLETE
        if view.run_limit_s is not None and view.start_time_s + view.run_limit_s < end_s:
            end_s = view.start_time_s + view.run_limit_s
            kind = EventKind.LIMIT
        heappush(self._events, (end_s, kind, self._next_number(), view, version))
        if self._keeps_order:
            self.keep_order(view)
        phase = view.job.phase
        if phase is not None and not view.unstable:
            to_go_s = max(0.0, phase[0] - (view.job.duration_s - view.remaining_s)) / view.speed
            if view.elastic is not None:
                to_go_s += view.elastic.pause_s
            if self.now_s + to_go_s < end_s:
                self.agenda.push(self.now_s + to_go_s, EventKind.PHASE, view, version)

    def keep_order(self, view: JobView) -> None:
        """Put a running job where it belongs among the others, for a policy that ranks them."""
        order = self.pools[view.pool].running_order
        if order is not None:
            order.put(view, self.now_s)

    def change_phase(self, view: JobView) -> None:
        """A job's needs change, and so do the speeds of a pair that it is in."""
        phase = view.job.phase
        assert phase is not None  # noqa: S101
        view.unstable = True
        view.profile = phase[1]
        self.settle(view)
        partner = view.partner
        if partner is not None:
            self.settle(partner)
            view.speed, partner.speed = self.colocation.speeds(view.profile, partner.profile)
            self.foresee(partner)
        self.foresee(view)
        self.changed[self.pools[view.pool]] = None

    # -- the end of a run ------------------------------------------------------------------------------------

    def leave(self, view: JobView, reason: StopReason) -> None:
        """Take a job off its GPUs; they are free unless a partner stays, which then runs at full speed."""
        pool = self.pools[view.pool]
        partner = view.partner
        placement = view.placement
        assert placement is not None  # noqa: S101
        self.settle(view)
        if self.recorder is not None:
            self.recorder.stopped(self.now_s, view, pool, reason)
        del pool.running[view]
        if pool.running_order is not None:
            pool.running_order.remove(view)
        self.changed[pool] = None
        if partner is None:
            pool.free.give(placement)
        else:
            self.settle(partner)
            view.partner = partner.partner = None
            if self._rules.speeds_up_alone(partner):
                partner.speed = 1.0
                if partner.remaining_s:  # else its work is done and its end stands
                    self.foresee(partner)
            else:
                partner.shareable = False
            view.joined = partner.joined = False
        view.speed = 1.0
        if reason != "completed":
            view.shareable = True
        view.placement = None
        view.flexible = NOWHERE
        view.run_limit_s = None
        view.version += 1

    def complete(self, view: JobView) -> None:
        """A job's work is done."""
        bounded = view.run_limit_s is not None
        self.leave(view, "completed")
        view.state = RunState.COMPLETED
        view.overhead_s += self._completion_s
        view.end_time_s = self.now_s
        view.remaining_s = 0.0
        if bounded:
            self.ended_in_profiling.add(view.index)
        self.completed += 1
        if self._learns:
            self.policy.observe_end(view, self.now_s)
        if self.completed % PROGRESS_EVERY == 0:
            self._progress(self.completed)

    def lose_progress(self, view: JobView) -> None:
        """Have a job start again from zero: all that it held GPUs for is lost, its overheads included."""
        view.lost_s = view.attained_s
        view.overhead_s = 0.0
        view.remaining_s = view.job.duration_s
        view.profile = view.job.profile
        if view.elastic is not None:
            view.elastic.lose_progress()

    def stop_at_limit(self, view: JobView, profiled: bool = True) -> None:
        """End a bounded run: its progress is lost, and the job queues again."""
        self.leave(view, "limit")
        self.lose_progress(view)
        view.profiled = profiled
        self.enqueue(view)

    def fail(self, view: JobView) -> None:
        """A job's node fails under it: it starts again from zero."""
        view.profiled = view.profiled and view.run_limit_s is None  # a killed profiling run shows nothing
        self.leave(view, "failed")
        self.lose_progress(view)
        view.failures += 1
        self.enqueue(view)
