"""Curves with few points hide nothing: every extreme of the steps that they stand for is in them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.what_if.curves import binned_curve, distribution, longest_by_span, summed_steps

STEPS = st.lists(st.tuples(st.integers(0, 200), st.integers(-5, 50)), min_size=1, max_size=40).map(
    lambda pairs: sorted(dict(pairs).items())
)


def held(steps: list[tuple[int, int]], at: float) -> int:
    return next((value for moment, value in reversed(steps) if moment <= at), 0)


@given(STEPS, st.integers(1, 30))
def test_a_span_holds_the_least_and_the_greatest_that_held_in_it(
    steps: list[tuple[int, int]], spans: int
) -> None:
    at, values = (np.array(each, dtype=float) for each in zip(*steps, strict=True))
    edges = np.linspace(0, 210, spans + 1)
    curve = binned_curve(at, values, edges)
    for i in range(spans):
        inside = [held(steps, edges[i])] + [
            value for moment, value in steps if edges[i] < moment < edges[i + 1]
        ]
        assert (curve["least"][i], curve["most"][i]) == (min(inside), max(inside))
        assert min(inside) - 1e-3 <= curve["mean"][i] <= max(inside) + 1e-3


@given(st.lists(STEPS, min_size=1, max_size=4))
def test_steps_of_several_are_summed(several: list[list[tuple[int, int]]]) -> None:
    at = np.array([moment for steps in several for moment, _ in steps], dtype=float)
    values = np.array([value for steps in several for _, value in steps], dtype=float)
    parts = [number for number, steps in enumerate(several) for _ in steps]
    moments, total = summed_steps(at, values, parts)
    assert moments.tolist() == sorted({float(moment) for steps in several for moment, _ in steps})
    assert total.tolist() == [sum(held(steps, moment) for steps in several) for moment in moments]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400))
def test_a_distribution_has_few_points_that_are_all_measured(values: list[float]) -> None:
    points = distribution(np.array(values))
    rounded = np.round(np.array(values), 3).tolist()  # halves as NumPy rounds them: 0.0105 to 0.01
    assert len(points["value"]) <= 200
    assert points["value"][0] == min(rounded)
    assert points["value"][-1] == max(rounded)
    assert points["share"][-1] == 1
    assert points["share"] == sorted(points["share"])
    assert set(points["value"]) <= set(rounded)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)), min_size=1), st.integers(1, 20))
def test_the_longest_of_all_is_the_longest_of_its_span(pairs: list[tuple[float, float]], spans: int) -> None:
    at, values = (np.array(each) for each in zip(*pairs, strict=True))
    rows = longest_by_span(at, values, spans)
    assert 1 <= len(rows) <= spans
    assert values[rows].max() == values.max()


def test_nothing_has_no_curve() -> None:
    nothing = np.zeros(0)
    assert distribution(nothing) == {"value": [], "share": []}
    assert longest_by_span(nothing, nothing, 3).tolist() == []
    assert binned_curve(nothing, nothing, np.array([0.0, 1.0])) == {"mean": [0], "least": [0], "most": [0]}
    assert summed_steps(nothing, nothing, [])[1].tolist() == []
