"""Replays a scenario under a policy, by name or as it is."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

from foundation.errors import BadInputError
from foundation.parts import hooks
from foundation.progress import Progress
from simulator.compiled import machine_code
from simulator.compiled.replay import replay as compiled_replay
from simulator.compiled.replay import worth_it
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView
from simulator.policies.registry import load_policy
from simulator.policy import Policy
from simulator.prediction import PredictBy, PredictingSimulation
from simulator.recorder import Recorder
from simulator.results.result import SimulationResult
from simulator.scenario.rules import Rules
from simulator.scenario.scenario import Scenario

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
    it that know further settings (`load_with_parts`); a policy given as an object runs as it is.
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
    only = None if isinstance(predict, bool) else predict
    make = partial(PredictingSimulation, by=by, only=only) if predict else Simulation

    def by_engine(scenario: Scenario, begun: Begun | None = None) -> SimulationResult:
        simulation = make(scenario, policy, name=name, recorder=recorder, progress=progress)
        if begun is not None:
            begun(simulation.jobs)
        simulation.run()
        if progress is not None:
            progress(simulation.completed, len(simulation.jobs), simulation.name)
        return simulation.result()

    if isinstance(rules, RulesAroundEngine):
        return rules.replay_around(scenario, policy, by_engine)
    return by_engine(scenario)


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


# Policies by name and settings. A part may know settings that are not a policy's own, and what it makes of
# one that is given them (`Part.policy_loader`): a function that stands around the loading, `LoadAround`.


class Load(Protocol):
    """Makes a policy from its name and settings under a rule set, as `load_policy`."""

    def __call__(self, name: str, settings: Mapping[str, Any] | None, rules: Rules) -> Policy:
        """Raise UnknownNameError for a name or a setting that does not exist, BadInputError for a value."""


class LoadAround(Protocol):
    """What stands at `Part.policy_loader`: it takes its own settings out, and adds to what `load` makes."""

    def __call__(
        self,
        load: Load,
        name: str,
        settings: Mapping[str, Any] | None,
        rules: Rules,
        scenario: Scenario | None = None,
    ) -> Policy:
        """Raise BadInputError where the policy cannot replay the scenario (None: any)."""


def load_with_parts(
    name: str, settings: Mapping[str, Any] | None, rules: Rules, scenario: Scenario | None = None
) -> Policy:
    """Make a policy with settings that may be those of parts, too; raises as `load_policy`."""
    load: Load = load_policy
    for _, around in hooks("policy_loader"):
        load = partial(around, load, scenario=scenario)
    return load(name, settings, rules)


def policy_for(scenario: Scenario, name: str, settings: Mapping[str, Any] | None) -> Policy:
    """Make a policy for a scenario; raises BadInputError where its jobs cannot run under it."""
    return load_with_parts(name, settings, scenario.rules, scenario)


@dataclass(frozen=True)
class RulesWithEngine(Rules, ABC):
    """Rules under which no replay is made in our engine."""

    @abstractmethod
    def replay(
        self,
        scenario: Scenario,
        policy: Policy,
        *,
        name: str | None,
        predict: bool,
        watched: bool,
        progress: Progress | None,
    ) -> SimulationResult:
        """Replay a scenario.

        `watched` says whether there is a recorder; raises BadInputError for what the engine cannot do.
        """


Begun = Callable[[Sequence[JobView]], None]  # called with a simulation's jobs, before its first event


class ByEngine(Protocol):
    """Replays a scenario in our engine, under the policy and with the recorder that were asked for."""

    def __call__(self, scenario: Scenario, begun: Begun | None = None) -> SimulationResult:
        """Return the schedule; `begun` may note on the jobs what is known of them from the start."""


@dataclass(frozen=True)
class RulesAroundEngine(Rules, ABC):
    """Rules under which something is played before the replay in our engine, or after it."""

    @abstractmethod
    def replay_around(self, scenario: Scenario, policy: Policy, by_engine: ByEngine) -> SimulationResult:
        """Replay a scenario, or what is left of it, by `by_engine`."""
