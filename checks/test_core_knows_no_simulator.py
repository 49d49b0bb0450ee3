"""The simulator's core knows neither the mistakes of other simulators nor any policy by name."""

import ast

import pytest

from checks.tree import modules, nodes
from experiments.artifact_rules.artifact import ArtifactRules
from experiments.artifact_rules.lucid_ways import ArtifactSettings
from simulator.policies.registry import policy_names
from simulator.scenario.rules import Rules

# What `--rules` of other simulators need; `packs_unmeasured` and `selection` are choices of our own policies.
ARTIFACT_WORDS = frozenset(
    {"stranded", "forgetful", "fresh_queue", "lost_partner", "FirstPartnerBinder", "ArtifactRules"}
    | (set(ArtifactRules.__dataclass_fields__) - set(Rules.__dataclass_fields__))
    | (set(vars(ArtifactSettings)["__annotations__"]))
)


def _words(code):
    for node in code:
        for field in ("id", "attr", "arg", "name"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                yield node, word
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def _text_of(operand):
    if isinstance(operand, ast.Constant):
        yield operand.value
    elif isinstance(operand, ast.Tuple | ast.List | ast.Set):
        for element in operand.elts:
            yield from _text_of(element)


def _policies_compared(code, names):
    for node in code:
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            if any(text in names for operand in operands for text in _text_of(operand)):
                yield node.lineno
        elif isinstance(node, ast.MatchValue) and any(text in names for text in _text_of(node.value)):
            yield node.lineno


def test_no_core_module_names_what_only_other_simulators_do():
    found = [
        f"{name}:{node.lineno}"
        for name in modules("simulator")
        for node, word in _words(nodes(name))
        if word in ARTIFACT_WORDS
    ]
    assert found == []


def test_no_policy_is_known_by_its_name():
    policies = frozenset(policy_names())
    found = [
        f"{name}:{line}"
        for name in modules("simulator", "live_scheduler")
        for line in _policies_compared(nodes(name), policies)
    ]
    assert found == []


@pytest.mark.parametrize(
    "code", ['if name == "lucid": pass', 'x = name not in ("fifo", "sjf")', 'match n:\n case "pcs": pass']
)
def test_a_comparison_would_be_seen(code):
    assert list(_policies_compared(ast.walk(ast.parse(code)), frozenset(policy_names())))
