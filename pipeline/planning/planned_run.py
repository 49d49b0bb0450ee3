"""One replay of a plan: nodes, policy and parts, with an identity and the command that repeats it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from foundation.equal_numbers import with_equal_numbers
from pipeline.planning.planned_log import PlannedLog
from pipeline.planning.planned_part import PlannedPart, planned_parts
from pipeline.studies.store import digest

# Part of every replay's identity. Raise it when the same replay gives other figures than before.
RESULTS_VERSION = 2


@dataclass(frozen=True)
class PlannedRun:
    """A policy on so many nodes of each virtual cluster.

    `parts`: what parts do in it (`PlannedPart.key`), without those that do nothing; `seed` draws what fails.
    """

    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    parts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def all_settings(self) -> dict[str, Any]:
        """Return the policy's settings, with those of parts."""
        settings = dict(self.settings)
        for part in planned_parts():
            settings |= part.policy_settings(self.value_of(part))
        return settings

    @property
    def total_nodes(self) -> int:
        """All nodes of its virtual clusters."""
        return sum(self.nodes.values())

    @property
    def variant(self) -> str:
        """Name what is switched on beside the nodes, for people."""
        words = (part.words(self.value_of(part)) for part in planned_parts())
        return ", ".join(filter(None, words)) or "awake"

    def value_of(self, part: PlannedPart) -> Any:
        """Return what a part does in it."""
        return self.parts.get(part.key, part.absent)

    def with_part(self, part: PlannedPart, value: Any) -> "PlannedRun":
        """Return the same with another value of a part."""
        others = {key: each for key, each in self.parts.items() if key != part.key}
        return replace(self, parts=others if value == part.absent else {**others, part.key: value})

    def on(self, nodes: Mapping[str, int]) -> "PlannedRun":
        """Return the same on other nodes."""
        return replace(self, nodes=dict(nodes))

    def to_dict(self) -> dict[str, Any]:
        """Return the replay as plain values."""
        return {
            "policy": self.policy,
            "settings": dict(sorted(self.settings.items())),
            "nodes": dict(sorted(self.nodes.items())),
            "seed": self.seed,
            **{part.key: self.value_of(part) for part in planned_parts()},
        }

    def identity(self, inputs_sha256: str) -> str:
        """Return 20 hex digits of a digest of all that its outcome depends on."""
        run = with_equal_numbers(self.to_dict())
        return digest({"inputs": inputs_sha256, "run": run, "version": RESULTS_VERSION})[:20]

    def command_words(self) -> list[str]:
        """Return the words of `lucid simulate` that say all of it but the nodes."""
        words = ["--policy", self.policy]
        for name, value in sorted(self.settings.items()):
            words += ["--setting", f"{self.policy}.{name}={setting_text(value)}"]
        for part in planned_parts():
            words += part.command_words(self.value_of(part))
        if self.seed:
            words += ["--seed", str(self.seed)]
        return words


def inputs_digest(log: PlannedLog) -> str:
    """Return the SHA-256 (hex) of what all replays share: jobs, rules, measurements, the size of a node."""
    scenario = log.scenario
    hashed = hashlib.sha256()
    shared = (log.gpus_per_node, log.one_pool, log.origin, scenario.rules, scenario.colocation)
    counted = () if scenario.counted_from_s is None else (scenario.counted_from_s,)
    for each in (*shared, scenario.lender, *counted):
        hashed.update(f"{each!r}\n".encode())
    for job in scenario.workload.jobs:
        hashed.update(f"{job!r}\n".encode())
    return hashed.hexdigest()


def setting_text(value: Any) -> str:
    """Return a setting's value as a command takes it."""
    return value if isinstance(value, str) else json.dumps(value)
