"""One replay of a plan: nodes, policy, sleep and loans, with an identity and the command that repeats it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from foundation.equal_numbers import with_equal_numbers
from pipeline.planning.planned_log import PlannedLog
from pipeline.search.experiment_store.documents import digest

# Part of every replay's identity. Raise it when the same replay gives other figures than before.
RESULTS_VERSION = 2


@dataclass(frozen=True)
class PlannedRun:
    """A policy on so many nodes of each virtual cluster.

    `node_sleep` are settings of nodes that sleep (none: all are always awake), `seed` draws the boots that
    fail. `loaning`: whether inference servers are lent; None: the policy's own settings say.
    """

    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    node_sleep: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    loaning: bool | None = None

    @property
    def all_settings(self) -> dict[str, Any]:
        """Return the policy's settings, with that of loans."""
        return {**self.settings} if self.loaning is None else {**self.settings, "loaning": self.loaning}

    @property
    def total_nodes(self) -> int:
        """All nodes of its virtual clusters."""
        return sum(self.nodes.values())

    @property
    def variant(self) -> str:
        """Name what is switched on beside the nodes, for people."""
        parts = [f"{name}={_text(value)}" for name, value in sorted(self.node_sleep.items())]
        lent = ["loans"] if self.loaning else []
        asleep = [f"sleep {' '.join(parts)}"] if parts else []
        return ", ".join([*lent, *asleep]) or "awake"

    def on(self, nodes: Mapping[str, int]) -> "PlannedRun":
        """Return the same on other nodes."""
        return replace(self, nodes=dict(nodes))

    def to_dict(self) -> dict[str, Any]:
        """Return the replay as plain values."""
        return {
            "policy": self.policy,
            "settings": dict(sorted(self.settings.items())),
            "nodes": dict(sorted(self.nodes.items())),
            "node_sleep": dict(sorted(self.node_sleep.items())),
            "seed": self.seed,
            "loaning": self.loaning,
        }

    def identity(self, inputs_sha256: str) -> str:
        """Return 20 hex digits of a digest of all that its outcome depends on."""
        run = with_equal_numbers(self.to_dict())
        return digest({"inputs": inputs_sha256, "run": run, "version": RESULTS_VERSION})[:20]

    def command_words(self) -> list[str]:
        """Return the words of `lucid simulate` that say all of it but the nodes."""
        words = ["--policy", self.policy]
        for name, value in sorted(self.settings.items()):
            words += ["--setting", f"{self.policy}.{name}={_text(value)}"]
        if self.loaning is not None:
            words += ["--loaning", "on" if self.loaning else "off"]
        if self.node_sleep:
            words.append("--node-sleep")
            words += [f"{name}={_text(value)}" for name, value in sorted(self.node_sleep.items())]
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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
