"""Elastic policies as the registry knows them: a rule of allocation behind the seam of all policies.

On a cluster with nodes the rule says how many whole GPUs each job is to hold (`Pool(whole=True)`), for each
virtual cluster by itself, and `parts.elastic.placing` where: that becomes the actions of a decision.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from operator import attrgetter
from typing import Any

from foundation.checked_settings import CheckedSettings
from parts.elastic.active_job import ActiveJob, ActiveJobCount
from parts.elastic.allocation import AllocationRule, Pool
from parts.elastic.placing import Placing
from simulator.actions import Action, Start
from simulator.job_view import JobView, outlasting
from simulator.policy import Policy, RunCosts, Sizes, start_from_front
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.job import Job

LEAST_WORK_S = 1e-6  # a job without work is still a job to rules that divide by it


@dataclass(frozen=True)
class ElasticSettings(CheckedSettings):
    """What can be set of all elastic policies on a cluster with nodes.

    `sizes`: whether they go by the jobs' true run times, as their authors' simulators do, or by estimates.
    `resizes`: whether running jobs may be given other GPUs, or be preempted; without, they only start jobs,
    each on all that it asks for: what a cluster does that cannot checkpoint. `resize_s` and `preemption_s`
    are what that costs a job each time (s).
    """

    sizes: Sizes = "true"
    resizes: bool = True
    resize_s: float = 0.0
    preemption_s: float = 0.0

    def costs(self) -> RunCosts:
        """Return what resizing and preemption cost."""
        return RunCosts(preemption_s=self.preemption_s, resize_s=self.resize_s)


class ElasticPolicy(Policy):
    """Gives jobs more and fewer GPUs while they run, as its rule of allocation says."""

    Settings: type[ElasticSettings] = ElasticSettings
    elastic = True
    oracle = True
    reads_profiles = False

    def __init__(self, settings: ElasticSettings | None = None) -> None:
        self.settings: Any = settings or self.Settings()
        self.costs = self.settings.costs()
        rule = self.rule
        self._rule = rule
        self._rule_asks_again = type(rule).next_change_s is not AllocationRule.next_change_s
        self.oracle = rule.oracle and self.settings.sizes == "true"
        self.needs_estimates = rule.oracle and self.settings.sizes == "estimated"
        self.arrivals_never_delay = rule.arrivals_never_delay
        self.at_events_only = rule.at_events_only
        self.begin_anew()

    @property
    @abstractmethod
    def rule(self) -> AllocationRule:
        """The rule, which knows neither nodes nor queues."""

    @classmethod
    def live_settings(cls, *, shares_gpus: bool) -> Mapping[str, Any]:
        """Go by estimates, and leave what runs alone."""
        return {"sizes": "estimated", "resizes": False}

    @classmethod
    def live_objection(cls) -> str | None:
        """A live cluster leaves what runs alone, and so must the rule."""
        return None if cls().rule.keeps_running else "preempts jobs"

    @classmethod
    def release_settings(cls, stated: Mapping[str, Any]) -> Mapping[str, Any]:
        """Go by estimates, and resize no job unless it is stated."""
        return {**cls.live_settings(shares_gpus=False), **stated}

    def begin_anew(self) -> None:
        """Forget the active jobs and when the rule is asked next."""
        self._active: dict[str, dict[JobView, PlacedJob]] = {}  # by pool, in the order of submission
        self._active_counts: dict[str, ActiveJobCount] = {}
        # When the rule is to be asked again though nothing happens, and of how many GPUs it was asked last.
        self._due: dict[str, tuple[float, int]] = {}

    def priority(self, job: JobView) -> int:
        """Keep the order of submission: the rule ranks all active jobs itself."""
        return job.index

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Ask the rule about each changed pool, and place what it says."""
        return [action for pool in snapshot.changed for action in self._decide_in(pool, snapshot.now_s)]

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        """When the rule wants to be asked again."""
        active = self._active.get(pool.name)
        if not active or not self._rule_asks_again:
            return None
        due = self._due.get(pool.name)
        if due is not None and due[0] > now_s:
            return due[0]
        gpus = _gpus_of(pool)
        due_s = self._rule.next_change_s(list(active.values()), Pool(gpus, whole=True), now_s)
        if due_s is not None:
            self._due[pool.name] = due_s, gpus
        return due_s

    # -- what no snapshot shows: how many jobs were active ---------------------------------------------------

    def history(self) -> Any:
        """Return how many jobs were active over each pool's events, what each had at first, what is due."""
        active_counts = {
            name: (active_count.events, active_count.jobs)
            for name, active_count in self._active_counts.items()
        }
        jobs = {
            view: (job.service_s, *job.count_before)
            for active in self._active.values()
            for view, job in active.items()
        }
        return active_counts, jobs, dict(self._due)

    def resume(self, pools: Mapping[str, NodePool], history: Any) -> None:
        """Take note of jobs that run and wait already."""
        self.begin_anew()
        if history is None:
            return
        active_counts, jobs, self._due = history
        for name, pool in pools.items():
            if name in active_counts:
                self._active_counts[name] = ActiveJobCount(*active_counts[name])
            remembered = {view: jobs[view] for view in _in_order(pool) if view in jobs}
            for view, (service_s, events, active_count) in remembered.items():
                job = self._admitted(view, pool, service_s)
                job.count_before = (events, active_count)

    # -- deciding --------------------------------------------------------------------------------------------

    def _decide_in(self, pool: NodePool, now_s: float) -> Sequence[Action]:
        views = _in_order(pool)
        if not views or not views[0].job.gpus:
            self._active.pop(pool.name, None)
            self._due.pop(pool.name, None)
            return start_from_front(pool)  # cores are not shared out
        if self._is_put_off(pool, views, now_s):
            return []
        jobs = self._brought_up_to(now_s, pool, views)
        if not self.settings.resizes:
            return self._start_only(pool, jobs, now_s)
        strict = self._rule.arrivals_never_delay
        placing = Placing(pool, now_s, resize_s=self.costs.resize_s, strict=strict)
        held = sum([job.gpus for job in jobs.values()])
        whole = Pool(pool.free.total + int(held), whole=True)
        if not whole.gpus:  # no node is there
            return []
        kept_out: set[JobView] = set()
        while True:
            asked = {view: job for view, job in jobs.items() if view not in kept_out}
            given = self._rule.allocate(list(asked.values()), whole, now_s)
            placing.place(
                {
                    view: int(gpus)
                    for (view, job), gpus in zip(asked.items(), given, strict=True)
                    if gpus != job.gpus
                }
            )
            scattered = placing.kept_out
            if not scattered or strict or scattered <= kept_out or not placing.left:
                return placing.actions
            # GPUs are free, but scattered: the rule says which others can use them, for a time.
            if any(now_s - view.submit_time_s > _patience_s(jobs[view]) for view in scattered):
                return placing.actions
            kept_out |= scattered

    def _is_put_off(self, pool: NodePool, views: Sequence[JobView], now_s: float) -> bool:
        """Whether nothing has happened, and when the rule is to be asked was put off meanwhile."""
        due = self._due.pop(pool.name, None)
        if due is None or now_s >= due[0] or due[1] != _gpus_of(pool):
            return False
        if views != list(self._active.get(pool.name, ())):
            return False
        self._due[pool.name] = due
        return True

    def _start_only(self, pool: NodePool, jobs: Mapping[JobView, ActiveJob], now_s: float) -> list[Action]:
        """Start waiting jobs on all of their GPUs; what runs is left alone."""
        asked = {view: job for view, job in jobs.items() if self._rule.keeps_running or not job.gpus}
        gpus = _gpus_of(pool) if self._rule.keeps_running else pool.free.total
        if not gpus:
            return []
        given = self._rule.allocate(list(asked.values()), Pool(gpus, whole=True), now_s)
        plan = pool.plan()
        actions: list[Action] = []
        for view, whole in zip(asked, given, strict=True):
            if whole and view.placement is None:
                placement = plan.place(view.gpus)
                if placement is not None:
                    actions.append(Start(view, placement))
                elif self._rule.arrivals_never_delay:
                    break
        return actions

    def _brought_up_to(
        self, now_s: float, pool: NodePool, views: Sequence[JobView]
    ) -> "dict[JobView, PlacedJob]":
        """Let the rule's view of the pool's jobs show what is so now."""
        before_by_view = self._active.get(pool.name, {})
        active_count = self._active_counts.setdefault(pool.name, ActiveJobCount())
        active_count.events += 1
        active_count.jobs += len(views)
        before = (active_count.events - 1, active_count.jobs - len(views))
        jobs: dict[JobView, PlacedJob] = {}
        self._active[pool.name] = jobs
        for view in views:
            job = before_by_view.get(view)
            if job is None:
                job = self._admitted(view, pool, self._size_of(view))
                job.count_before = before
            else:
                jobs[view] = job
            if job.version != view.version or (self.needs_estimates and job.gpus):
                self._follow(view, job, now_s)
        return jobs

    def _follow(self, view: JobView, job: "PlacedJob", now_s: float) -> None:
        """Let a job show what its view does: its GPUs, and what is left to do as of when that was settled."""
        held = view.held_gpus
        full = job.speed_up.at(job.demand)
        job.version = view.version
        job.gpus = float(held)
        job.rate = job.speed_up.at(held)
        if not self.needs_estimates:
            job.since_s = view.run_since_s + (0.0 if view.elastic is None else view.elastic.pause_s)
            job.remaining_s = view.remaining_s * full
            return
        job.since_s = now_s
        left_s = view.remaining_at(now_s) * full
        # On a live cluster true run times are unknown.
        done_s = view.job.duration_s * full - left_s if isfinite(left_s) else view.attained_at(now_s) * full
        job.remaining_s = outlasting(job.service_s, done_s) - done_s

    def _admitted(self, view: JobView, pool: NodePool, service_s: float) -> "PlacedJob":
        active_count = self._active_counts.setdefault(pool.name, ActiveJobCount())
        truth_or_belief = view.job
        if not isfinite(truth_or_belief.duration_s):  # a live cluster: what is believed is all that there is
            truth_or_belief = replace(truth_or_belief, duration_s=service_s / view.gpus)
        job = PlacedJob(truth_or_belief, view.index, active_count)
        job.service_s = service_s
        if not self.settings.resizes:
            job.min_gpus = job.demand
        self._rule.admit(job)
        self._active.setdefault(pool.name, {})[view] = job
        return job

    def _size_of(self, view: JobView) -> float:
        """Return a job's work (s on one GPU), in truth or as it is believed when it is first seen."""
        if not self.needs_estimates and isfinite(view.job.duration_s):
            elasticity = view.job.elasticity
            size_s = view.job.duration_s * view.gpus if elasticity is None else elasticity.service_s
        else:
            elasticity = view.job.elasticity
            full = view.gpus if elasticity is None else elasticity.speed_up.at(view.gpus)
            size_s = view.estimate_s * full
        return max(LEAST_WORK_S, size_s)


class PlacedJob(ActiveJob):
    """A job on nodes, as rules see it."""

    __slots__ = ("version",)

    def __init__(self, job: Job, index: int, active_count: ActiveJobCount) -> None:
        super().__init__(job, index, active_count)
        self.version = -1  # of its view, when it was brought up to date


def _in_order(pool: NodePool) -> list[JobView]:
    """Return the jobs that run or wait in a pool, in the order of submission."""
    return sorted((*pool.running, *pool.queue), key=attrgetter("index"))


def _gpus_of(pool: NodePool) -> int:
    """Return the GPUs that can be handed out: those that are free, and those that jobs hold."""
    running: Collection[JobView] = pool.running
    return pool.free.total + sum(view.held_gpus for view in running)


def _patience_s(job: ActiveJob) -> float:
    """Return for how long others may overtake a job that would fit, were free GPUs not scattered.

    As long as it would run.
    """
    return job.service_s / job.speed_up.at(job.demand)
