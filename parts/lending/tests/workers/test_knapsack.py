"""Phase 2: how many flexible workers each job gets."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from parts.lending.workers.knapsack import WorkerGroup, choose_workers, saved_time_values

FIGURE_6 = [WorkerGroup(2, [50.0]), WorkerGroup(1, [20.0, 30.0, 36.0, 40.0])]


def worth(groups: Sequence[WorkerGroup], extra_workers: Sequence[int]) -> float:
    return sum(group.values[more - 1] for group, more in zip(groups, extra_workers, strict=True) if more)


@pytest.mark.parametrize(
    ("capacity_gpus", "extra_workers", "value"),
    [(0, (0, 0), 0), (1, (0, 1), 20), (2, (1, 0), 50), (3, (1, 1), 70), (4, (1, 2), 80), (9, (1, 4), 90)],
)
def test_the_papers_figure_6(capacity_gpus: int, extra_workers: tuple[int, ...], value: float) -> None:
    assert choose_workers(FIGURE_6, capacity_gpus) == extra_workers
    assert worth(FIGURE_6, extra_workers) == value


groups = st.lists(
    st.builds(
        WorkerGroup,
        st.integers(1, 5),
        st.lists(st.sampled_from([0.0, -3.0, 1.0, 1.0 / 3, 7.5, 1e12]) | st.floats(-10, 1e6), max_size=4),
    ),
    max_size=5,
)


@given(groups, st.integers(0, 20))
def test_no_choice_is_worth_more(groups: list[WorkerGroup], capacity_gpus: int) -> None:
    best = max(
        worth(groups, choice)
        for choice in product(*(range(len(group.values) + 1) for group in groups))
        if sum(g.gpus_per_worker * more for g, more in zip(groups, choice, strict=True)) <= capacity_gpus
    )
    choice = choose_workers(groups, capacity_gpus)
    assert worth(groups, choice) == pytest.approx(best, rel=1e-12, abs=1e-6)
    assert sum(g.gpus_per_worker * more for g, more in zip(groups, choice, strict=True)) <= capacity_gpus


def test_a_great_capacity_costs_no_memory() -> None:
    assert choose_workers(FIGURE_6, 10**12) == (1, 4)


def test_what_is_no_knapsack_is_refused() -> None:
    with pytest.raises(BadInputError, match="-1 GPUs"):
        choose_workers(FIGURE_6, -1)
    with pytest.raises(BadInputError, match="Group 1"):
        choose_workers([FIGURE_6[0], WorkerGroup(1, [float("nan")])], 4)
    with pytest.raises(BadInputError, match="workers of 0 GPUs"):
        choose_workers([WorkerGroup(0, [1.0])], 4)


def test_values_are_the_seconds_saved_or_prefer_who_soon_ends() -> None:
    assert saved_time_values([100.0, 50.0, 25.0]) == [50.0, 75.0]
    assert saved_time_values([100.0, 50.0], exponent=1.5) == [0.05]
    assert saved_time_values([0.0, 0.0], exponent=1.5) == [0.0]
