"""Applies what a policy asks for to a simulation's jobs and nodes, or says why it cannot be."""

from typing import NoReturn

from simulator.actions import Action, Colocate, Loan, PolicyError, Preempt, Reclaim, Resize, Start
from simulator.cluster.placement import NOWHERE, Placement, exchanged, lies_within
from simulator.engine.job_lifecycle import JobLifecycle
from simulator.job_view import JobView, RunState
from simulator.policy import RunCosts
from simulator.scenario.placed_workers import PlacedWorkers
from simulator.snapshot import NodePool


class ActionTaker:
    """Raises PolicyError for an action that breaks the rules (`simulator.actions`)."""

    def __init__(
        self, lifecycle: JobLifecycle, costs: RunCosts, gpus_per_node: int, workers: PlacedWorkers
    ) -> None:
        self._lifecycle = lifecycle
        self._name = lifecycle.name
        self._pools = lifecycle.pools
        self._costs = costs
        self._gpus_per_node = gpus_per_node
        self._workers = workers
        self._begin = lifecycle.begin
        self._foresee = lifecycle.foresee
        self._recorder = lifecycle.recorder

    def apply(self, action: Action) -> None:
        """Apply an action, whichever it is."""
        if isinstance(action, Start):
            self.start(action)
        elif isinstance(action, Resize):
            self._resize(action)
        elif isinstance(action, Preempt):
            self._preempt(action)
        elif isinstance(action, Colocate):
            self._colocate(action)
        elif isinstance(action, Loan | Reclaim):
            self._move_node(action)
        else:
            raise PolicyError(f"{self._name} asked for {action!r}, which is not an action.")

    def start(self, action: Start) -> None:
        """Have a waiting job run on free GPUs."""
        view = action.job
        if view.state is not RunState.PENDING:
            raise PolicyError(f"{self._name} starts job {view.job.job_id!r}, which is {view.state.value}.")
        pool = self._pools[view.pool]
        placement = action.placement
        if placement.__class__ is not Placement:
            self._refuse_kind(view, placement)
        placed = placement.gpus
        if view.job.workers is not None:
            view.speed = self._speed_of_workers(view, pool, placement, action.flexible)
            view.flexible = action.flexible
        elif placed != view.gpus:
            self._check_size(view, placed)
            view.speed = view.speed_on(placed)
        if view.nodes is not None:
            self._check_nodes(view, placement)
        try:
            pool.free.take(placement)
        except (ValueError, IndexError) as error:
            raise PolicyError(
                f"{self._name} places job {view.job.job_id!r} on taken GPUs of {pool.name!r}: {error}."
            ) from error
        self._begin(view, pool)
        view.placement = placement
        view.run_limit_s = action.limit_s
        if action.limit_s is not None:
            view.profiled = True
        self._foresee(view)
        if self._recorder is not None:
            self._recorder.started(self._lifecycle.now_s, view, pool)

    def _refuse_kind(self, view: JobView, placement: object) -> NoReturn:
        raise PolicyError(
            f"{self._name} gives job {view.job.job_id!r} {placement!r}, which is no placement.",
            remedy="Make it of (node, GPUs) pairs: simulator.cluster.placement.Placement.of(pairs).",
        )

    def _check_nodes(self, view: JobView, placement: Placement) -> None:
        if not lies_within(placement, view.nodes):
            raise PolicyError(
                f"{self._name} places job {view.job.job_id!r} on {placement}, of which not all nodes are "
                f"{view.job.virtual_cluster!r}'s."
            )

    def _check_size(self, view: JobView, placed: int) -> None:
        if view.elastic is None:
            raise PolicyError(
                f"{self._name} gives job {view.job.job_id!r} {placed} GPUs; it needs all of its {view.gpus}."
            )
        if not view.min_gpus <= placed <= view.gpus:
            raise PolicyError(
                f"{self._name} gives job {view.job.job_id!r} {placed} GPUs; it runs on {view.min_gpus} to "
                f"{view.gpus}."
            )

    def _speed_of_workers(
        self, view: JobView, pool: NodePool, placement: Placement, flexible: Placement
    ) -> float:
        try:
            return self._workers.speed(view, pool, placement, flexible)
        except ValueError as error:
            raise PolicyError(
                f"{self._name} places the workers of job {view.job.job_id!r} on {placement}, the "
                f"flexible ones on {flexible}: {error}."
            ) from error

    def _resize(self, action: Resize) -> None:
        """Exchange a running job's GPUs. It is the policy's own doing, and no news to it."""
        view = action.job
        before = view.placement
        if (
            view.state is not RunState.RUNNING
            or before is None
            or view.elastic is None
            or view.partner is not None
            or not view.shareable
            or view.run_limit_s is not None
        ):
            raise PolicyError(
                f"{self._name} resizes {view!r}.",
                remedy="The job must be elastic and run, alone and without a limit.",
            )
        pool = self._pools[view.pool]
        if action.placement.__class__ is not Placement:
            self._refuse_kind(view, action.placement)
        placed = action.placement.gpus
        if view.job.workers is not None:
            speed = self._speed_of_workers(view, pool, action.placement, action.flexible)
        else:
            if placed != view.gpus:
                self._check_size(view, placed)
            speed = view.speed_on(placed)
        given, taken = exchanged(before, action.placement)
        whole = all(gpus > 0 for _, gpus in action.placement)
        if not whole or len({node for node, _ in action.placement}) != len(action.placement):
            raise PolicyError(f"{self._name} resizes {view!r} to {action.placement}, which is no placement.")
        if not given and not taken:
            raise PolicyError(f"{self._name} resizes {view!r} to the GPUs that it holds.")
        lifecycle = self._lifecycle
        lifecycle.settle(view)
        pool.free.give(given)
        try:
            pool.free.take(taken)
        except (ValueError, IndexError) as error:
            raise PolicyError(
                f"{self._name} resizes job {view.job.job_id!r} to taken GPUs of {pool.name!r}: {error}."
            ) from error
        view.placement = action.placement
        view.flexible = action.flexible
        view.speed = speed
        view.elastic.resizes += 1
        view.elastic.pause(self._costs.resize_s)
        self._foresee(view)
        if self._recorder is not None:
            self._recorder.resized(lifecycle.now_s, view, pool, before)

    def _colocate(self, action: Colocate) -> None:
        view, partner = action.job, action.partner
        allowed = (
            view.state is RunState.PENDING
            and partner.state is RunState.RUNNING
            and partner.partner is None
            and partner.shareable
            and partner.gpus == view.gpus
            and (partner.elastic is None or partner.held_gpus == view.gpus)
            and partner.pool == view.pool
            and partner.run_limit_s is None
        )
        if not allowed:
            raise PolicyError(
                f"{self._name} colocates {view!r} with {partner!r}.",
                remedy="The partner must run in the same pool, alone, without a limit, on as many GPUs.",
            )
        if view.nodes is not None:
            self._check_nodes(view, partner.placement or NOWHERE)
        lifecycle = self._lifecycle
        lifecycle.settle(partner)
        self._begin(view, self._pools[view.pool])
        view.placement = partner.placement
        view.partner, partner.partner = partner, view
        view.joined = True
        view.was_colocated = partner.was_colocated = True
        view.speed, partner.speed = lifecycle.colocation.speeds(view.profile, partner.profile)
        self._foresee(view)
        self._foresee(partner)
        if self._recorder is not None:
            self._recorder.started(lifecycle.now_s, view, self._pools[view.pool])

    def _preempt(self, action: Preempt) -> None:
        view = action.job
        lifecycle = self._lifecycle
        bounded = view.run_limit_s is not None
        if view.state is not RunState.RUNNING or (bounded and action.keeps_progress):
            raise PolicyError(f"{self._name} preempts {view!r}, which is not a running job without a limit.")
        if bounded:  # cut short: it shows nothing
            lifecycle.stop_at_limit(view, profiled=False)
            return
        # The policy is deciding right now; a preemption is its own doing, not news to it. Evicted jobs queue
        # like new ones, and the policy is asked again at once.
        pool = self._pools[view.pool]
        was_news = pool in lifecycle.changed
        if action.keeps_progress:
            held = view.held_gpus
            lifecycle.leave(view, "preempted")
            overhead_s = self._costs.preemption_of(held, self._gpus_per_node)
        else:
            lifecycle.leave(view, "evicted")
            lifecycle.lose_progress(view)
            overhead_s = self._costs.restart_s
        if view.elastic is None:
            view.remaining_s += overhead_s
            view.overhead_s += overhead_s
        else:  # it may resume on fewer GPUs, which make a pause no longer
            view.elastic.pause(overhead_s)
        view.preemptions += 1
        lifecycle.enqueue(view)
        if action.keeps_progress and not was_news:
            lifecycle.changed.pop(pool, None)

    def _move_node(self, action: Loan | Reclaim) -> None:
        """Move a node; the policy is asked again at once in the pool that gains it."""
        changed: dict[NodePool, None] = self._lifecycle.changed
        try:
            if isinstance(action, Loan):
                action.borrower.borrow(action.lender, action.node)
                changed[action.borrower] = None
            else:
                changed[action.borrower.give_back(action.node)] = None
        except ValueError as error:
            raise PolicyError(f"{self._name} moves a node that it cannot have: {error}.") from error
