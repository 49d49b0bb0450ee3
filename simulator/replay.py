"""Replays a workload under policies, by name or as they are."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from foundation.errors import BadInputError
from foundation.progress import Progress
from simulator.artifact_rules.rule_sets import load_rules
from simulator.cluster import ClusterSpec
from simulator.cluster_changes import ClusterChange
from simulator.colocation import BelievedPairs, ColocationModel
from simulator.elastic.elastic_policy import ElasticPolicy, Sizes
from simulator.elastic.replay import replay_in_pools
from simulator.engine import Simulation
from simulator.forecast import ThroughputForecast
from simulator.initial_state import InitialState
from simulator.policies.registry import elastic_policy_names, load_policy
from simulator.policy import Policy
from simulator.prediction import PredictingSimulation
from simulator.recorder import Recorder
from simulator.result import SimulationResult
from simulator.rules import Rules
from simulator.workload import Workload


def simulate(
    workload: Workload,
    cluster: ClusterSpec,
    policy: str | Policy,
    *,
    rules: Rules | str = "default",
    settings: Mapping[str, Any] | None = None,
    colocation: ColocationModel | None = None,
    changes: Sequence[ClusterChange] = (),
    forecast: ThroughputForecast | None = None,
    believed_pairs: BelievedPairs | None = None,
    initial: InitialState | None = None,
    predict: bool | Collection[str] = False,
    predict_by: Sizes = "true",
    recorder: Recorder | None = None,
    progress: Progress | None = None,
) -> SimulationResult:
    """Replay a workload under a policy.

    A policy given by name runs with the rule set's settings for it, changed by `settings`; a policy given as
    an object runs as it is. `colocation` says how fast jobs run that share GPUs, `changes` what happens to
    the nodes, `forecast` what may be known of the load to come, `believed_pairs` what the policy is told of
    the speeds of pairs; `predict` foretells each job's end at its submission (or that of the jobs of
    these ids), by true run times or, with `predict_by="estimated"`, by the jobs' estimates; in pools without
    nodes it is all of them by true ones. `recorder` watches. Jobs that
    could never start are left out and counted in `summary["skipped"]`. Raises PolicyError when the policy
    breaks the rules, BadInputError for a policy that the rules do not know.
    """
    chosen = load_rules(rules) if isinstance(rules, str) else rules
    name: str | None = None
    if isinstance(policy, str):
        name = policy
        policy = load_policy(name, {**chosen.policy_settings.get(name, {}), **(settings or {})})
    elif settings:
        raise BadInputError("Settings were given for a policy that is already made.")
    if chosen.fractional:
        if not isinstance(policy, ElasticPolicy):
            raise BadInputError(
                f"Policy {name or type(policy).__name__!r} does not resize jobs, and under the rules "
                f"{chosen.name} a pool is shared in fractions.",
                remedy=f"Choose {', '.join(elastic_policy_names())}, or other rules.",
            )
        if changes or initial is not None or recorder is not None:
            raise BadInputError(
                f"Under the rules {chosen.name} there are no nodes: none can come, go or be watched.",
                remedy="Use the default rules.",
            )
        return replay_in_pools(
            workload,
            cluster,
            policy,
            name=name or type(policy).__name__.lower(),
            rules=chosen.name,
            predict=bool(predict),
            progress=progress,
        )
    prepass = policy.profiling_prepass(workload, cluster, chosen)
    only = None if isinstance(predict, bool) else predict
    make = partial(PredictingSimulation, by=predict_by, only=only) if predict else Simulation
    simulation = make(
        prepass.workload if prepass else workload,
        prepass.cluster if prepass else cluster,
        policy,
        name=name,
        rules=chosen,
        colocation=colocation,
        changes=changes,
        forecast=forecast,
        believed_pairs=believed_pairs,
        initial=initial,
        recorder=recorder,
        progress=progress,
    )
    if prepass:
        prepass.mark(simulation.jobs)
    simulation.run()
    if progress is not None:
        progress(simulation.completed, len(simulation.jobs), simulation.name)
    return prepass.joined(simulation.result()) if prepass else simulation.result()


def run_policies(
    workload: Workload,
    cluster: ClusterSpec,
    policies: Sequence[str],
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    rules: Rules | str = "default",
    colocation: ColocationModel | None = None,
    changes: Sequence[ClusterChange] = (),
    forecast: ThroughputForecast | None = None,
    progress: Progress | None = None,
) -> dict[str, SimulationResult]:
    """Replay the same workload under each policy by name; `settings` by policy name. Rows align."""
    return {
        name: simulate(
            workload,
            cluster,
            name,
            rules=rules,
            settings=(settings or {}).get(name),
            colocation=colocation,
            changes=changes,
            forecast=forecast,
            progress=progress,
        )
        for name in policies
    }
