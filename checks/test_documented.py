"""Every policy, service and hook that a page must speak of is there; what its tables say holds together."""

import re

from checks.tree import ROOT, page, part
from experiments.policies.policy_comparison import COLUMNS, SLICES, VARIANTS
from foundation.parts import lacking
from simulator import actions, policy
from simulator.policies.registry import policy_names

POLICIES = page("policies")


def rows(table: str) -> dict[tuple[str, str], tuple[str, ...]]:
    lines = [
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in part(POLICIES, table).splitlines()[2:]
    ]
    return {(line[0], line[1]): tuple(line[2:]) for line in lines}


def test_every_policy_is_in_the_page_of_rules() -> None:
    assert not [
        name for name in policy_names() if f"`{name}`" not in POLICIES and f"| {name} |" not in POLICIES
    ]


def test_policies_are_compared_on_every_slice_and_every_variant_has_its_row() -> None:
    compared = {policy for _, policy in rows("policies")}
    assert {"fifo", "qssf", "easy", "tsafrir_easy", "fair_share", "horus"} <= compared
    of_parts = {what.removeprefix("policy ") for what in lacking()}
    assert compared <= {*policy_names(), *of_parts}
    assert set(rows("policies")) == {(part, policy) for part in SLICES for policy in compared}
    assert list(rows("variants")) == [(variant.policy, variant.label) for variant in VARIANTS]
    assert all(len(figures) == len(COLUMNS) for figures in rows("policies").values())


def test_backfilling_shortens_the_queue_of_fifo_and_sharing_that_of_backfilling() -> None:
    queuing = {key: float(figures[1]) for key, figures in rows("policies").items()}
    for slice_name in SLICES:
        assert queuing[slice_name, "tsafrir_easy"] < queuing[slice_name, "easy"] < queuing[slice_name, "fifo"]
        assert queuing[slice_name, "horus"] < queuing[slice_name, "qssf"]


def test_each_service_is_documented_within_ten_lines() -> None:
    text = page("services")
    for name in ("QSSF", "CES"):
        section = re.search(rf"^## {name}.*?\n\n(.*?)(?=\n## |\Z)", text, re.MULTILINE | re.DOTALL)
        assert section is not None
        assert len(section[1].strip().splitlines()) <= 10


def test_a_policy_takes_ten_lines_beside_its_rule() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Add a policy\n")[1].split("\n## ")[0]
    code = re.sub(r'"""[^"]*"""', "", section.split("```python\n")[1].split("```")[0])
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 10 + 1  # the rule is one line: what `priority` returns
    for name in ("prepare", "pool_of", "round_s", "next_change_s", "observe_end"):
        assert re.search(rf"\b{name}\b", section)
        assert hasattr(policy.Policy, name)
    for name in ("Colocate", "Preempt", "Loan", "Reclaim"):
        assert re.search(rf"\b{name}\b", section)
        assert hasattr(actions, name)
