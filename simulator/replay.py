"""Replays a scenario under a policy, by name or as it is."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from foundation.errors import BadInputError
from foundation.progress import Progress
from simulator.elastic.elastic_policy import ElasticPolicy, Sizes
from simulator.elastic.replay import replay_in_pools
from simulator.engine import Simulation
from simulator.policies.registry import elastic_policy_names, load_policy
from simulator.policy import Policy
from simulator.prediction import PredictingSimulation
from simulator.recorder import Recorder
from simulator.result import SimulationResult
from simulator.scenario import Scenario


def simulate(
    scenario: Scenario,
    policy: str | Policy,
    *,
    settings: Mapping[str, Any] | None = None,
    predict: bool | Collection[str] = False,
    predict_by: Sizes = "true",
    recorder: Recorder | None = None,
    progress: Progress | None = None,
) -> SimulationResult:
    """Replay a scenario under a policy.

    A policy given by name runs with the rule set's settings for it, changed by `settings`; a policy given as
    an object runs as it is. `predict` predicts each job's end at its submission (or that of the jobs of
    these ids), by true run times or, with `predict_by="estimated"`, by the jobs' estimates; in pools without
    nodes it is all of them by true ones. `recorder` watches. Jobs that could never start are left out and
    counted in `summary["skipped"]`. Raises PolicyError when the policy breaks the rules, BadInputError for a
    policy that the rules do not know.
    """
    rules = scenario.rules
    name: str | None = None
    if isinstance(policy, str):
        name = policy
        policy = load_policy(name, settings, rules)
    elif settings:
        raise BadInputError("Settings were given for a policy that is already made.")
    if rules.fractional:
        if not isinstance(policy, ElasticPolicy):
            raise BadInputError(
                f"Policy {name or type(policy).__name__!r} does not resize jobs, and under the rules "
                f"{rules.name} a pool is shared in fractions.",
                remedy=f"Choose {', '.join(elastic_policy_names())}, or other rules.",
            )
        if scenario.changes or scenario.initial is not None or recorder is not None:
            raise BadInputError(
                f"Under the rules {rules.name} there are no nodes: none can come, go or be watched.",
                remedy="Use the default rules.",
            )
        name = name or type(policy).__name__.lower()
        return replay_in_pools(scenario, policy, name=name, predict=bool(predict), progress=progress)
    prepass = policy.profiling_prepass(scenario.workload, scenario.cluster, rules)
    if prepass:
        scenario = replace(scenario, workload=prepass.workload, cluster=prepass.cluster)
    only = None if isinstance(predict, bool) else predict
    make = partial(PredictingSimulation, by=predict_by, only=only) if predict else Simulation
    simulation = make(scenario, policy, name=name, recorder=recorder, progress=progress)
    if prepass:
        prepass.mark(simulation.jobs)
    simulation.run()
    if progress is not None:
        progress(simulation.completed, len(simulation.jobs), simulation.name)
    return prepass.joined(simulation.result()) if prepass else simulation.result()
