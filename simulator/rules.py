"""Rule sets: our own rules, and those of the authors' simulators to compare with job by job.

A rule set is data. It says how gangs are placed and with which settings each policy runs; a policy's caller
may change those settings, and the engine knows no policy by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster_logs.errors import UnknownNameError
from simulator.placement import Remainder


@dataclass(frozen=True)
class Rules:
    """What differs from one simulator to another."""

    name: str
    remainder: Remainder = "fullest"
    policy_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


DEFAULT = Rules("default")

# The Lucid artifact's simulator: `docs/simulator_fidelity.md` describes each of these.
LUCID_ARTIFACT = Rules(
    "lucid-artifact",
    remainder="freest",
    policy_settings={
        "qssf": {"fresh_queue": "gpus"},
        "srtf": {
            "selection": "quota",
            "preemption_s": 40.0,
            "preemption_multi_node_s": 60.0,
            "completion_s": 1.0,
        },
        "tiresias": {
            "selection": "quota",
            "preemption_s": 40.0,
            "preemption_multi_node_s": 60.0,
            "completion_s": 1.0,
        },
    },
)

RULES: Mapping[str, Rules] = {rules.name: rules for rules in (DEFAULT, LUCID_ARTIFACT)}


def load_rules(name: str) -> Rules:
    """Return a rule set by name; raises UnknownNameError with the alternatives."""
    if name not in RULES:
        raise UnknownNameError("rule set", name, RULES)
    return RULES[name]
