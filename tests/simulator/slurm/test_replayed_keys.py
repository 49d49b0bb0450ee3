"""What a site.toml holds is replayed, or told as left out: no key is neither."""

import ast
from pathlib import Path

import pytest

import simulator
from cluster_logs.site.left_out import slurm_keys
from cluster_logs.site.rules import (
    Account,
    NodeReservation,
    Nodes,
    Partition,
    PreemptionRules,
    PriorityRules,
    Qos,
    SchedulerRules,
    User,
)

FOLDER = Path(simulator.__file__).parent
POLICY = [FOLDER / "policies" / "site.py", *sorted((FOLDER / "slurm").glob("*.py"))]
# A replay gives the same waits whatever these say.
WITHOUT_EFFECT = {
    "bf_continue": "a cycle takes no time in a replay, so each goes through its queue",
    "enforce_qos": "a log holds the jobs that had a QOS",
    "default": "a log says which partition a job was in",
}


def read_by_the_policy() -> set[str]:
    return {
        node.attr
        for path in POLICY
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }


@pytest.mark.parametrize(
    "kind",
    [PriorityRules, SchedulerRules, PreemptionRules, Qos, Account, User, Partition, Nodes, NodeReservation],
)
def test_each_key_is_replayed_or_told(kind: type) -> None:
    used = read_by_the_policy()
    neither = [
        name
        for name, key in slurm_keys(kind).items()
        if not key.left_out and name not in used and name not in WITHOUT_EFFECT
    ]
    assert neither == []
