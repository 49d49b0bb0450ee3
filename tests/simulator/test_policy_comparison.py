"""The page of policies says what a replay says."""

import os
from pathlib import Path

import pytest

from experiments.policies.policy_comparison import COLUMNS, SLICES, VARIANTS, PolicyVariant, Replays
from simulator.policies.registry import BUILT_IN

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
DATA = os.environ.get("LUCID_REFERENCE_DATA")


def rows(table: str) -> dict[tuple[str, str], tuple[str, ...]]:
    text = PAGE.split(f"<!-- {table}: begin -->")[1].split(f"<!-- {table}: end -->")[0]
    lines = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.strip().splitlines()[2:]
    ]
    return {(line[0], line[1]): tuple(line[2:]) for line in lines}


def test_policies_are_compared_on_every_slice_and_every_variant_has_its_row():
    compared = {policy for _, policy in rows("policies")}
    assert {"fifo", "qssf", "easy", "tsafrir_easy", "fair_share", "horus"} <= compared <= set(BUILT_IN)
    assert set(rows("policies")) == {(part, policy) for part in SLICES for policy in compared}
    assert list(rows("variants")) == [(variant.policy, variant.label) for variant in VARIANTS]
    assert all(len(figures) == len(COLUMNS) for figures in rows("policies").values())


@pytest.mark.reference
@pytest.mark.skipif(DATA is None, reason="LUCID_REFERENCE_DATA names no reference data")
@pytest.mark.parametrize("policy", ["easy", "tsafrir_easy", "fair_share", "horus"])
def test_the_rows_are_those_of_a_replay(policy):
    replays = Replays(Path(DATA))
    for part in ("week1vc48", "week"):
        assert replays.row(part, PolicyVariant(policy, policy)) == rows("policies")[part, policy]


def test_backfilling_shortens_the_queue_of_fifo_and_sharing_that_of_backfilling():
    queuing = {key: float(figures[1]) for key, figures in rows("policies").items()}
    for part in SLICES:
        assert queuing[part, "tsafrir_easy"] < queuing[part, "easy"] < queuing[part, "fifo"]
        assert queuing[part, "horus"] < queuing[part, "qssf"]
