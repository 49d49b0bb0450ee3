"""The page of policies says what a replay says."""

from pathlib import Path

import pytest

from experiments.policies.policy_comparison import PolicyVariant, Replays
from tests.reference import ROOT

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")


def rows(table: str) -> dict[tuple[str, str], tuple[str, ...]]:
    text = PAGE.split(f"<!-- {table}: begin -->")[1].split(f"<!-- {table}: end -->")[0]
    lines = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.strip().splitlines()[2:]
    ]
    return {(line[0], line[1]): tuple(line[2:]) for line in lines}


@pytest.mark.reference
@pytest.mark.parametrize("policy", ["easy", "tsafrir_easy", "fair_share", "horus"])
def test_the_rows_are_those_of_a_replay(policy):
    replays = Replays(ROOT)
    for part in ("week1vc48", "week"):
        assert replays.row(part, PolicyVariant(policy, policy)) == rows("policies")[part, policy]
