"""Predicts at its submission when a job ends (PCS, section 3.4: JCTpred), under any policy.

Right after the decisions of the moment at which jobs were submitted, the cluster as it is then is played
forward without later submissions, until they have ended. Nothing that is not known then counts: neither nodes
that will fail or come, nor which boots will fail, nor which jobs will be withdrawn. One play serves all jobs
of a moment; of what the play needs, only the jobs that run and wait are copied, once. Under a policy that
lets no later job delay an earlier one the simulation itself is the play, unless it has companions.

How long jobs run is what was known then, their estimates: one that a job has outlived was too short and
counts twice, as EASY takes it. By true run times (`by="truth"`) the play is that of PCS' authors.
"""

from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import fields, replace
from math import inf
from time import process_time
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError, UnknownNameError
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView, RunState, outlasting
from simulator.mechanisms.backfill import SHORTEST_BELIEF_S
from simulator.policy import Policy
from simulator.results.prediction_metrics import prediction_summary
from simulator.results.result import SimulationResult
from simulator.scenario.initial_state import InitialState
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload

NO_JOBS = Workload((), {})
PredictBy = Literal["estimates", "truth"]
PREDICT_BY: tuple[PredictBy, ...] = get_args(PredictBy)


class PredictingSimulation(Simulation):
    """A simulation that predicts the end of each job that is submitted (`JobView.predicted_end_time_s`).

    Its table also has `fair_time_s`, a job's run time on an equal share of its virtual cluster.
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: Policy,
        *,
        by: PredictBy = "estimates",
        only: Collection[str] | None = None,
        **more: Any,
    ) -> None:
        """`only`: the ids of the jobs that are predicted for; None: all."""
        if by not in PREDICT_BY:
            raise UnknownNameError("run times to predict by", by, PREDICT_BY)
        self._by = by
        self._only = None if only is None else frozenset(only)
        self._ahead_policy = deepcopy(policy)  # before it has seen anything
        super().__init__(scenario, policy, **more)
        self._ahead = replace(
            scenario,
            workload=NO_JOBS,
            cluster=self.cluster,
            changes=(),
            companions=tuple(each.known_ahead() for each in scenario.companions),
        )
        self._is_the_play = (
            policy.arrivals_never_delay
            and by == "truth"
            and not scenario.companions
            and not scenario.changes
            and all(view.job.cancel_time_s is None for view in self.jobs)
        )

    def _advance(self, until_s: float, moments: int) -> int:
        """Take the moments one by one, and predict after each."""
        if self._is_the_play:
            return super()._advance(until_s, moments)
        taken = 0
        while taken < moments:
            before = self._submitted
            if not super()._advance(until_s, 1):
                break
            taken += 1
            if self._submitted > before:
                began = process_time()
                self._predict(self._asked_for(self.jobs[before : self._submitted]))
                self._cpu_s += process_time() - began
        return taken

    def _asked_for(self, views: Sequence[JobView]) -> Sequence[JobView]:
        return views if self._only is None else [view for view in views if view.job.job_id in self._only]

    def _predict(self, submitted: Sequence[JobView]) -> None:
        """Play forward until the jobs have ended; one that never would gets no prediction."""
        waited_for = {}
        for view in submitted:
            if view.state is RunState.COMPLETED:
                view.predicted_end_time_s = view.end_time_s
            elif view.state in (RunState.PENDING, RunState.RUNNING):
                waited_for[view.index] = view
        if not waited_for:
            return
        scenario = replace(self._ahead, initial=_for_one_play(self.state(), by=self._by))
        ahead = Simulation(scenario, self._ahead_policy, name=self.name)
        to_end = {view: waited_for[view.index] for view in ahead.jobs if view.index in waited_for}
        while to_end and ahead.step():
            for copy in [copy for copy in to_end if copy.end_time_s is not None]:
                to_end.pop(copy).predicted_end_time_s = copy.end_time_s

    def result(self) -> SimulationResult:
        """Return the schedule with what was predicted, and how far that was from what came."""
        schedule = super().result()
        if self._is_the_play:
            for view in self._asked_for(self.jobs):
                view.predicted_end_time_s = view.end_time_s
        predicted = [view.predicted_end_time_s for view in self.counted_jobs()]
        cluster = self.cluster
        gpus = {name: sum(cluster.open_sizes(name)) for name in cluster.names}
        jobs = schedule.jobs.assign(
            predicted_end_time_s=np.array(predicted, dtype=np.float64),
            fair_time_s=fair_times_s(self.jobs, gpus)[schedule.warm_up_jobs :],
        )
        predicted_by = {"predict_by": self._by, **prediction_summary(jobs)}
        return replace(schedule, jobs=jobs, summary={**schedule.summary, **predicted_by})


class _OneTimeState(InitialState):
    """A state with views that may be used as they are: they are shared with no other."""

    def begun(self) -> dict[JobView, JobView]:
        return {view: view for view in (*self.running, *self.waiting)}


def _for_one_play(state: InitialState, *, by: PredictBy) -> InitialState:
    """Forget what is not known yet: which jobs are withdrawn, and how long jobs run unless that is known."""
    for view in (*state.running, *state.waiting):
        if view.job.cancel_time_s is not None:
            view.job = replace(view.job, cancel_time_s=None)
    if by == "estimates":
        views = (*state.running, *state.waiting)
        return state.with_durations({view.job.job_id: _believed_s(view, state.at_s) for view in views})
    return _OneTimeState(**{part.name: getattr(state, part.name) for part in fields(state)})


def _believed_s(view: JobView, now_s: float) -> float:
    """How long a job is believed to run, now, a second at least; BadInputError without an estimate."""
    estimate_s = view.estimated_duration_s
    if estimate_s is None or not estimate_s >= 0:
        raise BadInputError(
            f"The end of job {view.job.job_id!r} cannot be predicted: its estimate is {estimate_s!r}.",
            remedy="Give every job an estimate of 0 s or more, or predict by the true run times (truth).",
        )
    return outlasting(max(SHORTEST_BELIEF_S, estimate_s), view.job.duration_s - view.remaining_at(now_s))


def fair_times_s(jobs: Sequence[JobView], gpus: dict[str, int]) -> NDArray[np.float64]:
    """Return each completed job's run time (s) on an equal share of its virtual cluster, shape (jobs,).

    Themis' fair finish time as PCS' authors measure it: the work over the lesser of its demand and the
    cluster's GPUs over the mean number of active jobs at the events that it saw, from its submission to its
    end; NaN for jobs that did not complete, or need no GPU.
    """
    fair = np.full(len(jobs), np.nan)
    by_cluster: dict[str, list[int]] = {}
    for row, view in enumerate(jobs):
        if view.job.gpus:
            by_cluster.setdefault(view.job.virtual_cluster, []).append(row)
    for name, rows in by_cluster.items():
        submitted = np.array([jobs[row].submit_time_s for row in rows])
        ended = np.array([_or(jobs[row].end_time_s, inf) for row in rows])
        count = len(rows)
        # Ends go before submissions of the same moment, as everywhere; not a job's own.
        kinds = np.concatenate([np.ones(count), np.where(ended > submitted, 0, 2)])
        order = np.lexsort((kinds, np.concatenate([submitted, ended])))
        place = np.empty(2 * count, dtype=np.int64)
        place[order] = np.arange(2 * count)
        active = np.cumsum(np.where(order < count, 1, -1))  # after each event
        before = np.concatenate([[0], active[:-1]])
        sums = np.concatenate([[0], np.cumsum(before)])
        first, last = place[:count], place[count:]
        mean = (sums[last + 1] - sums[first] + 1) / (last - first + 1)  # it counts itself from the first on
        for at, row in enumerate(rows):
            view = jobs[row]
            if view.state is RunState.COMPLETED:
                share = min(gpus[name] / mean[at], view.gpus)
                fair[row] = _service_s(view) / share
    return fair


def _service_s(view: JobView) -> float:
    elasticity = view.job.elasticity
    return view.job.duration_s * view.gpus if elasticity is None else elasticity.service_s


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value
