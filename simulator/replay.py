"""Replays a scenario under a policy, by name or as it is."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from foundation.errors import BadInputError
from foundation.progress import Progress
from simulator.engine import Simulation
from simulator.job_view import JobView
from simulator.loaning.policy_beside_inference import policy_for
from simulator.policy import Policy
from simulator.prediction import PredictBy, PredictingSimulation
from simulator.recorder import Recorder
from simulator.result import SimulationResult
from simulator.rules import Rules
from simulator.scenario import Scenario


def simulate(
    scenario: Scenario,
    policy: str | Policy,
    *,
    settings: Mapping[str, Any] | None = None,
    predict: bool | Collection[str] = False,
    predict_by: PredictBy | None = None,
    recorder: Recorder | None = None,
    progress: Progress | None = None,
) -> SimulationResult:
    """Replay a scenario under a policy.

    A policy given by name runs with the rule set's settings for it, changed by `settings`, with `loaning` on
    servers of the inference service, too (`load_borrowing_policy`); a policy given as an object runs as it
    is. `predict` predicts each job's end at its submission (or that of the jobs of these ids), by
    `run_times_to_predict_by`; in pools without nodes it is all of them. `recorder` watches. Jobs that could
    never start are left out and counted in `summary["skipped"]`. Raises PolicyError when the policy breaks
    the rules, BadInputError for a policy that the rules do not know.
    """
    rules = scenario.rules
    by = run_times_to_predict_by(rules, predict_by)
    name: str | None = None
    if isinstance(policy, str):
        name = policy
        policy = policy_for(scenario, name, settings)
    elif settings:
        raise BadInputError("Settings were given for a policy that is already made.")
    replayed = rules.replay(
        scenario, policy, name=name, predict=bool(predict), watched=recorder is not None, progress=progress
    )
    if replayed is not None:
        return replayed
    prepass = policy.profiling_prepass(scenario.workload, scenario.cluster, rules)
    if prepass:
        scenario = replace(scenario, workload=prepass.workload, cluster=prepass.cluster)
    only = None if isinstance(predict, bool) else predict
    make = partial(PredictingSimulation, by=by, only=only) if predict else Simulation
    simulation = make(scenario, policy, name=name, recorder=recorder, progress=progress)
    if prepass:
        prepass.mark(simulation.jobs)
    simulation.run()
    if progress is not None:
        progress(simulation.completed, len(simulation.jobs), simulation.name)
    return prepass.joined(simulation.result()) if prepass else simulation.result()


def play(scenario: Scenario, policy: Policy) -> list[JobView]:
    """Replay a scenario of the default rules without measuring it: its jobs with their times, in its order.

    Raises PolicyError when the policy breaks the rules.
    """
    simulation = Simulation(scenario, policy)
    simulation.run()
    return simulation.ended_jobs()


def run_times_to_predict_by(rules: Rules, asked: PredictBy | None) -> PredictBy:
    """Return what ends are predicted by: estimates, which were known, unless the truth is asked for.

    In pools without nodes it is the truth, as in PCS' simulator; raises BadInputError where estimates are
    asked for there.
    """
    if not rules.fractional:
        return asked or "estimates"
    if asked == "estimates":
        raise BadInputError(
            f"Under the rules {rules.name} ends are predicted by true run times, as PCS' simulator does.",
            remedy="Predict by the truth, or use the default rules.",
        )
    return "truth"
