"""Replays a workload under policies, by name or as they are."""

from collections.abc import Mapping, Sequence
from typing import Any

from cluster_logs.errors import BadInputError
from cluster_logs.progress import Progress
from simulator.cluster import ClusterSpec
from simulator.cluster_changes import ClusterChange
from simulator.colocation import BelievedPairs, ColocationModel
from simulator.engine import Simulation
from simulator.forecast import ThroughputForecast
from simulator.policies.registry import load_policy
from simulator.policy import Policy
from simulator.recorder import Recorder
from simulator.result import SimulationResult
from simulator.rules import Rules, load_rules
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
    recorder: Recorder | None = None,
    progress: Progress | None = None,
) -> SimulationResult:
    """Replay a workload under a policy.

    A policy given by name runs with the rule set's settings for it, changed by `settings`; a policy given as
    an object runs as it is. `colocation` says how fast jobs run that share GPUs, `changes` what happens to
    the nodes, `forecast` what may be known of the load to come, `believed_pairs` what the policy is told of
    the speeds of pairs; `recorder` watches. Jobs that could never start are left out and counted in
    `summary["skipped"]`. Raises PolicyError when the policy breaks the
    rules.
    """
    chosen = load_rules(rules) if isinstance(rules, str) else rules
    name: str | None = None
    if isinstance(policy, str):
        name = policy
        policy = load_policy(name, {**chosen.policy_settings.get(name, {}), **(settings or {})})
    elif settings:
        raise BadInputError("Settings were given for a policy that is already made.")
    stage = policy.stage_before(workload, cluster, chosen)
    simulation = Simulation(
        stage.workload if stage else workload,
        stage.cluster if stage else cluster,
        policy,
        name=name,
        rules=chosen,
        colocation=colocation,
        changes=changes,
        forecast=forecast,
        believed_pairs=believed_pairs,
        recorder=recorder,
        progress=progress,
    )
    if stage:
        stage.mark(simulation.jobs)
    simulation.run()
    if progress is not None:
        progress(simulation.completed, len(simulation.jobs), simulation.name)
    return stage.joined(simulation.result()) if stage else simulation.result()


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
