"""The rule set of the PCS artifact's simulator, which needs the part `elastic`; all artifacts by name."""

from collections.abc import Mapping

from experiments.artifact_rules.artifact import Artifact, Fault
from experiments.artifact_rules.rule_sets import HELIOS_SIMULATOR, LUCID_SIMULATOR
from experiments.pools.pool_policies import POOL_POLICIES
from experiments.pools.pool_rules import PoolRules

# The PCS artifact's simulator: a pool of GPUs, no nodes, and nothing costs a running job time. What it does
# otherwise than the paper says is in docs/predictability.md.
PCS_SIMULATOR = Artifact(
    PoolRules("pcs-artifact", fractional=True, policies=POOL_POLICIES),
    (
        Fault(
            "forgetful_predictions",
            "Themis predicts ends as if what is left of each job were all of it, which makes fair times too "
            "short, and as if no lease ended before the first job does.",
            {"themis": {"forgetful": True}},
        ),
    ),
)
PCS_ARTIFACT = PCS_SIMULATOR.rules()

ARTIFACTS: Mapping[str, Artifact] = {
    artifact.name: artifact for artifact in (LUCID_SIMULATOR, HELIOS_SIMULATOR, PCS_SIMULATOR)
}
