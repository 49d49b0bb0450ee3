"""Headroom chosen on a history: the published table comes out, limits are kept, more headroom lends less."""

import csv
import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.model_quality.headroom import LAST_VALUE, choose_headroom, headroom_outcome
from foundation.errors import BadInputError
from tests.reference import ROOT

SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=60)


@pytest.mark.reference
def test_the_table_of_headroom_comes_out() -> None:
    with gzip.open(ROOT / "data/lyra/inference_load.csv.gz", "rt") as file:
        usage = np.array([float(row["usage"]) for row in csv.DictReader(file)])
    highest = [float("nan")] + [max(usage[max(0, at - 3) : at]) for at in range(1, usage.size)]
    highest[0] = 0.0
    rules = {LAST_VALUE: None, "max of last 3": np.array(highest)}
    with (ROOT / "reference/lyra/headroom.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7
    for row in rows:
        found = headroom_outcome(usage, rules[row["predictor"]], 94, float(row["headroom"]))
        assert found.short_share == pytest.approx(float(row["ticks_short"]), abs=1e-4)
        assert found.mean_short == pytest.approx(float(row["mean_servers_short"]), abs=1e-3)
        assert found.p99_short == pytest.approx(float(row["p99_servers_short"]), abs=0.05)
        assert found.mean_lendable == pytest.approx(float(row["mean_servers_lendable"]), abs=0.011)


def test_a_step_is_short_where_lent_servers_are_needed() -> None:
    # 10 servers: 5, 6, 9 and 2 are needed; lent 5, 4 and 1 before the last three.
    found = headroom_outcome([0.5, 0.6, 0.9, 0.2], None, 10, 0.0)
    assert (found.steps, found.short_share, found.mean_lendable) == (3, 2 / 3, 10 / 3)
    assert found.mean_short == (1 + 3) / 3
    # A forecast of 0.9 for the third step is heard, one that is below the usage is not.
    heard = headroom_outcome([0.5, 0.6, 0.9, 0.2], [1.0, 0.0, 0.9, 0.2], 10, 0.1)
    assert (heard.short_share, heard.mean_lendable) == (0.0, (4 + 0 + 0) / 3)


@settings(max_examples=60, deadline=None)
@given(SHARES, st.integers(1, 50), st.floats(0, 0.2), st.floats(0, 0.2))
def test_more_headroom_lends_no_more_and_is_short_no_more_often(
    usage: list[float], servers: int, first: float, second: float
) -> None:
    less, more = (headroom_outcome(usage, None, servers, share) for share in sorted((first, second)))
    assert more.short_share <= less.short_share
    assert more.mean_short <= less.mean_short
    assert more.mean_lendable <= less.mean_lendable


@settings(max_examples=40, deadline=None)
@given(SHARES, st.integers(1, 50), st.floats(0, 1))
def test_the_chosen_headroom_keeps_the_limit_or_says_that_none_does(
    usage: list[float], servers: int, limit: float
) -> None:
    forecasts = {LAST_VALUE: None, "all": np.ones(len(usage))}
    choice = choose_headroom(usage, forecasts, servers, limit)
    # A forecast of all servers lends nothing, and is never short.
    assert choice.holds
    assert choice.chosen.short_share <= limit
    assert all(
        one.mean_lendable <= choice.chosen.mean_lendable for one in choice.curve if one.short_share <= limit
    )
    only = choose_headroom(usage, {LAST_VALUE: None}, servers, limit, headrooms=(0.0,))
    assert only.holds == (only.chosen.short_share <= limit)


@pytest.mark.parametrize(
    ("usage", "believed", "limit", "message"),
    [
        ([0.5], None, 0.1, "say nothing of headroom"),
        ([0.5, 1.5], None, 0.1, r"usage is 1\.5"),
        ([0.5, float("nan")], None, 0.1, "no list of numbers"),
        ([0.5, 0.5], [0.5], 0.1, "1 forecasts were given for 2 steps"),
        ([0.5, 0.5], None, 1.1, "may be short"),
    ],
)
def test_what_cannot_be_used_is_named(usage, believed, limit, message) -> None:
    with pytest.raises(BadInputError, match=message):
        choose_headroom(usage, {"forecast": believed}, 8, limit)
