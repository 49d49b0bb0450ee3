"""A live cluster that can be played forward in the simulator, any number of times.

The live policy serves the queue on the cluster's own nodes, going by its estimates. Where the cluster's own
order counts (below the mode `control`), that is played: its priorities as they are now, backfilled by the
time limits that users gave.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.forecast.forecast_inputs import ForecastInputs, RunTime, kin_of, ranks_of
from live_scheduler.forecast.present_state import present_state
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView
from simulator.policies.registry import load_policy
from simulator.policy import Policy
from simulator.scenario.initial_state import InitialState
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload

Floats = NDArray[np.float64]
Times = tuple[Floats, Floats]  # the start and the end in each play (s from now); NaN: never

# Behind a job without a time limit nothing can be backfilled.
NO_LIMIT_S = 365 * 86_400.0
_MEDIAN = np.array([0.5])
_NO_JOBS = Workload((), {})


class PlayableCluster:
    """A reading with what is believed of its jobs, made ready once.

    `state` names the simulated jobs of each live one and says which are not played; `beliefs` are run times
    up to each job's limit, `overdue` the jobs that go first after a long wait, `jobs` how many are played.
    """

    def __init__(self, inputs: ForecastInputs) -> None:
        """Raises BadInputError or UnknownNameError for settings that no live cluster can follow."""
        self.inputs = inputs
        settings = inputs.settings
        with_run_time = tuple(job for job in inputs.cluster.jobs if job.job_id in inputs.run_times)
        self.cluster = replace(inputs.cluster, jobs=with_run_time)
        beliefs = inputs.run_times
        self.beliefs = {job.job_id: _limited(job, beliefs[job.job_id], self.cluster) for job in with_run_time}
        policy = live_policy(settings)
        self.state = present_state(
            self.cluster,
            self.beliefs,
            policy,
            settings,
            profile_of=lambda job: inputs.profiles.get(job.job_id),
            profiling_limit_s=policy.profiling_limit_s,
        )
        now_s = self.cluster.at_s
        self.overdue = frozenset(
            job.job_id
            for job in with_run_time
            if inputs.controls and job.waiting and now_s - job.submit_time_s > settings.longest_wait_s
        )
        self.initial = self.state.initial
        if not inputs.controls:
            self.initial = _in_its_own_order(self.initial, self.cluster)
        self.jobs = len(self.initial.running) + len(self.initial.waiting)

    def drawn(self, samples: int) -> dict[str, Floats]:
        """Draw run times (s) of all simulated jobs from what is believed of them, shape (samples,) each."""
        inputs = self.inputs

        def draw(job: LiveJob, name: str, age_s: float | None) -> Floats:
            kin = kin_of(job.virtual_cluster, job.user, job.gpus, job.submit_time_s)
            ranks = ranks_of(name, kin, inputs.release, inputs.seed, samples, inputs.alike)
            return self.beliefs[job.job_id].drawn(ranks, age_s)

        return self._run_times(draw)

    def estimated(self) -> dict[str, Floats]:
        """Return the estimates as run times (s), shape (1,) each; of what runs the median of what is left."""
        return self._run_times(lambda job, _, age_s: self.beliefs[job.job_id].drawn(_MEDIAN, age_s))

    def played(self, run_times: Mapping[str, Floats]) -> dict[str, Times]:
        """Play once for each of the run times, to the end; return the times of all simulated jobs."""
        names = [view.job.job_id for view in (*self.initial.running, *self.initial.waiting)]
        if self.state.spec is None or not names:
            return {}
        samples = len(run_times[names[0]])
        at = {name: place for place, name in enumerate(names)}
        starts, ends = np.full((len(names), samples), nan), np.full((len(names), samples), nan)
        for play in range(samples):
            duration_s = {name: float(run_times[name][play]) for name in names}
            simulation = self._begun(self.initial.with_durations(duration_s))
            simulation.run()
            for view in simulation.jobs:
                if view.first_start_time_s is not None and view.end_time_s is not None:
                    place = at[view.job.job_id]
                    starts[place, play], ends[place, play] = view.first_start_time_s, view.end_time_s
        return {name: (starts[place], ends[place]) for name, place in at.items()}

    def played_without(
        self, run_times: Mapping[str, Floats], absent: Collection[str], wanted: Collection[str]
    ) -> dict[str, Times]:
        """Play once, as if some live jobs did not wait, until the wanted ones have ended."""
        if self.state.spec is None:
            return {}
        waiting = tuple(view for view in self.initial.waiting if live_id(view) not in absent)
        initial = replace(self.initial, waiting=waiting)
        there = (*initial.running, *waiting)
        duration_s = {view.job.job_id: float(run_times[view.job.job_id][0]) for view in there}
        simulation = self._begun(initial.with_durations(duration_s))
        followed = [view for view in simulation.jobs if live_id(view) in wanted]
        while any(view.end_time_s is None for view in followed) and simulation.step():
            pass
        return {
            view.job.job_id: (np.array([view.first_start_time_s]), np.array([view.end_time_s]))
            for view in followed
            if view.first_start_time_s is not None and view.end_time_s is not None
        }

    def _begun(self, initial: InitialState) -> Simulation:
        controls, spec = self.inputs.controls, self.state.spec
        assert spec is not None  # noqa: S101
        policy = self._live() if controls else load_policy("easy")
        pairs = self.inputs.believed_pairs if controls else None
        return Simulation(Scenario(_NO_JOBS, spec, initial=initial, believed_pairs=pairs), policy)

    def _live(self) -> Policy:
        """Make the live policy, with overdue jobs in front."""
        policy = live_policy(self.inputs.settings)
        overdue = self.overdue
        if overdue:
            by_policy = policy.priority

            def priority(view: JobView) -> Any:
                return (live_id(view) not in overdue, by_policy(view))

            vars(policy)["priority"] = priority
        return policy

    def _run_times(self, of: Callable[[LiveJob, str, float | None], Floats]) -> dict[str, Floats]:
        """Return run times (s) by simulated job: `of` a live job, its name in the play and its age (s)."""
        run_times: dict[str, Floats] = {}
        for job in self.cluster.jobs:
            age_s = None if job.start_time_s is None else max(0.0, self.cluster.at_s - job.start_time_s)
            for name in self.state.played.get(job.job_id, (job.job_id,)):
                run_times[name] = of(job, name, age_s)
        for name, job_id in self.state.elsewhere.items():
            run_times[name] = run_times[job_id]
        return run_times


def live_id(view: JobView) -> str:
    """Return the id of the live job that a simulated one stands for."""
    return view.job.job_id.partition("#")[0].partition("@")[0]


def first_and_last(plays: Sequence[Times]) -> Times:
    """Return when the first of some simulated jobs starts and the last ends, in each play."""
    return np.min([starts for starts, _ in plays], axis=0), np.max([ends for _, ends in plays], axis=0)


def _limited(job: LiveJob, belief: RunTime, cluster: ClusterState) -> RunTime:
    """Return what is believed of a job, up to its limits."""
    limit_s = min(job.time_limit_s or inf, cluster.longest_run_s.get(job.partition, inf))
    return replace(belief, limit_s=min(belief.limit_s, limit_s))


def _in_its_own_order(initial: InitialState, cluster: ClusterState) -> InitialState:
    """Return the state as the cluster would serve it: by priority, then by submission, up to time limits."""
    copies = initial.begun()
    jobs = cluster.by_id
    for view in copies.values():
        job = jobs[live_id(view)]
        longest_s = cluster.longest_run_s.get(job.partition, NO_LIMIT_S)
        view.estimated_duration_s = min(job.time_limit_s or NO_LIMIT_S, longest_s)
    waiting = sorted(
        map(copies.__getitem__, initial.waiting),
        key=lambda view: (-(jobs[live_id(view)].priority or 0), view.index),
    )
    for place, view in enumerate(waiting):
        view.submit_time_s = float(place)  # what the policy goes by
    return replace(initial, running=tuple(map(copies.__getitem__, initial.running)), waiting=tuple(waiting))
