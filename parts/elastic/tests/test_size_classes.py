"""Size classes and weights: the published configurations, and what holds for any sizes."""

import csv
import gzip
from fractions import Fraction
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from parts.elastic.pareto.size_classes import (
    InfeasibleError,
    WfqParameters,
    class_weights,
    size_thresholds,
    variation_limit,
)
from tests.reference import ROOT

SIZES = st.lists(st.floats(1.0, 1e7), min_size=1, max_size=60).map(sorted)


@pytest.mark.reference
def test_the_published_front() -> None:
    folder = ROOT / "reference" / "pcs"
    with gzip.open(folder / "training_sizes_0e4a51.csv.gz", "rt") as lines:
        sizes = sorted(float(line) for line in lines)
    with (folder / "pareto_front_0e4a51.csv").open() as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    assert len(rows) == 58
    for row in rows:
        found = WfqParameters(*(float(row[name]) for name in ("T", "W", "zeta", "delta"))).config(sizes)
        bounds = row["thresholds"].strip("[]").split(", ")
        assert found.thresholds_s == tuple(map(float, bounds)), row["idx"]
        rates = [text.strip(" '") for text in row["rates"].strip("[]").split(",")]
        assert found.weights == tuple(float(Fraction(rate)) for rate in rates), row["idx"]
        assert len(found.weights) == int(row["nq"])
        assert (found.efficiency_min, found.efficiency_step) == (float(row["zeta"]), float(row["delta"]))
    assert variation_limit(sizes) == pytest.approx(9.846812332625868)


def test_a_class_ends_before_the_size_that_goes_too_far() -> None:
    # 10 and 10.9 vary by 0.0019; with 30 it is 0.33. 30 itself counts nowhere; 31 and 32 begin anew.
    assert size_thresholds([10.0, 10.9, 30.0, 31.0, 32.0], 0.1) == (10.0, inf)
    assert size_thresholds([10.0, 10.9, 30.0, 31.0, 32.0, 90.0], 0.1) == (10.0, 32.0, inf)


def test_bounds_in_one_second_are_one() -> None:
    assert size_thresholds([1.1, 1.5, 1.6, 1.9, 1.95], 0.001) == (1.0, inf)


@given(SIZES)
@settings(max_examples=50, deadline=None)
def test_beyond_the_limit_all_sizes_are_one_class(sizes: list[float]) -> None:
    assert size_thresholds(sizes, variation_limit(sizes) + 0.001) == (inf,)


@given(SIZES, st.floats(0.001, 12.0))
@settings(max_examples=50, deadline=None)
def test_bounds_ascend_and_never_outnumber_the_sizes(sizes: list[float], variation_max: float) -> None:
    bounds = size_thresholds(sizes, variation_max)
    assert list(bounds) == sorted(set(bounds))
    assert bounds[-1] == inf
    assert len(bounds) <= len(sizes)


@given(st.integers(1, 8), st.floats(-3.0, 3.0))
@settings(max_examples=100, deadline=None)
def test_weights_are_shares_in_one_direction(classes: int, weight_decay: float) -> None:
    try:
        weights = class_weights(classes, weight_decay)
    except InfeasibleError:
        assert classes > 2
        return
    assert sum(weights) == pytest.approx(1)
    assert min(weights) > 0
    assert list(weights) == sorted(weights, reverse=weight_decay > 0) or weight_decay == 0


def test_a_share_that_rounds_to_nothing_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="1 of 4 size classes weigh less than a thousandth"):
        class_weights(4, 3.0)


@pytest.mark.parametrize("variation_max", [0.0, -1.0, inf, float("nan")])
def test_a_limit_that_is_none(variation_max: float) -> None:
    with pytest.raises(BadInputError, match="variation_max"):
        size_thresholds([1.0, 2.0], variation_max)
