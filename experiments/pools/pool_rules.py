"""The rules of PCS' simulator: the GPUs of a virtual cluster are one pool, handed out in fractions."""

from dataclasses import dataclass

from experiments.artifact_rules.artifact import ArtifactRules
from experiments.pools.replay import replay_in_pools
from foundation.errors import BadInputError
from foundation.progress import Progress
from parts.elastic.elastic_policy import ElasticPolicy
from simulator.policies.registry import elastic_policy_names
from simulator.policy import Policy
from simulator.replay import RulesWithEngine
from simulator.results.result import SimulationResult
from simulator.scenario.scenario import Scenario


@dataclass(frozen=True)
class PoolRules(ArtifactRules, RulesWithEngine):
    """Rules under which a scenario is replayed in pools without nodes."""

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
        """Replay elastic jobs; raises BadInputError for what pools do not have."""
        if not isinstance(policy, ElasticPolicy):
            raise BadInputError(
                f"Policy {name or type(policy).__name__!r} does not resize jobs, and under the rules "
                f"{self.name} a pool is shared in fractions.",
                remedy=f"Choose {', '.join(elastic_policy_names())}, or other rules.",
            )
        if scenario.changes or scenario.initial is not None or scenario.companions or watched:
            raise BadInputError(
                f"Under the rules {self.name} there are no nodes: none can come, go, sleep or be watched.",
                remedy="Use the default rules.",
            )
        name = name or type(policy).__name__.lower()
        return replay_in_pools(scenario, policy, name=name, predict=predict, progress=progress)
