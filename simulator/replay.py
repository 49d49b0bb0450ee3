"""Replays a scenario under a policy, by name or as it is."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from foundation.errors import BadInputError
from foundation.progress import Progress
from simulator.compiled import machine_code
from simulator.compiled.replay import replay as compiled_replay
from simulator.compiled.replay import worth_it
from simulator.engine import Simulation
from simulator.job_view import JobView
from simulator.own_engine import RulesWithEngine
from simulator.policies.loading import policy_for
from simulator.policy import Policy
from simulator.prediction import PredictBy, PredictingSimulation
from simulator.recorder import Recorder
from simulator.result import SimulationResult
from simulator.rules import Rules
from simulator.scenario import Scenario

Engine = Literal["python", "compiled"]
ENGINE_VARIABLE = "LUCID_ENGINE"  # the same, where no argument says it


def simulate(
    scenario: Scenario,
    policy: str | Policy,
    *,
    settings: Mapping[str, Any] | None = None,
    predict: bool | Collection[str] = False,
    predict_by: PredictBy | None = None,
    recorder: Recorder | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> SimulationResult:
    """Replay a scenario under a policy.

    A policy given by name runs with the rule set's settings for it, changed by `settings`, and as parts have
    it that know further settings (`simulator.policies.loading`); a policy given as an object runs as it is.
    `predict` predicts each job's end at its submission (or that of the jobs of these ids), by
    `run_times_to_predict_by`; in pools without nodes it is all of them. `recorder` watches. Jobs that could
    never start are left out and counted in `summary["skipped"]`.

    `engine` asks for "python", or for "compiled" machine code however few the jobs are; None: what is
    quicker. Both make the same schedule, and `summary["engine"]` says which did: what only Python can do is
    done by it in any case. Raises PolicyError when the policy breaks the rules, BadInputError for a policy
    that the rules do not know, or for "compiled" without numba.
    """
    rules = scenario.rules
    by = run_times_to_predict_by(rules, predict_by)
    name: str | None = None
    if isinstance(policy, str):
        name = policy
        policy = policy_for(scenario, name, settings)
    elif settings:
        raise BadInputError("Settings were given for a policy that is already made.")
    if isinstance(rules, RulesWithEngine):
        return rules.replay(
            scenario,
            policy,
            name=name,
            predict=bool(predict),
            watched=recorder is not None,
            progress=progress,
        )
    if recorder is None and not predict and chosen(engine, len(scenario.workload)):
        result = compiled_replay(
            scenario, policy, name=name or type(policy).__name__.lower(), progress=progress
        )
        if result is not None:
            return result
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


def chosen(engine: Engine | None, jobs: int) -> bool:
    """Whether so many jobs are to be replayed by machine code, where that can be."""
    asked = engine or os.environ.get(ENGINE_VARIABLE) or None
    if asked not in (None, "python", "compiled"):
        raise BadInputError(f"The engine is {asked!r}.", remedy="Use python, compiled, or leave it out.")
    if asked == "compiled" and not machine_code.available():
        raise BadInputError(
            "The compiled engine needs numba, which is not installed.",
            remedy="Install the extra that brings it, from a checkout: pip install '.[fast]'",
        )
    return asked == "compiled" or (asked is None and worth_it(jobs))


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
