"""Phase 2: how many flexible workers each job gets."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from simulator.worker_scaling.knapsack import WorkerGroup, choose_workers, saved_time_values

FIGURE_6 = [WorkerGroup(2, [50.0]), WorkerGroup(1, [20.0, 30.0, 36.0, 40.0])]


@pytest.mark.parametrize(
    ("capacity_gpus", "extra_workers", "value"),
    [(0, (0, 0), 0), (1, (0, 1), 20), (2, (1, 0), 50), (3, (1, 1), 70), (4, (1, 2), 80), (9, (1, 4), 90)],
)
def test_the_papers_figure_6(capacity_gpus: int, extra_workers: tuple[int, ...], value: float) -> None:
    choice = choose_workers(FIGURE_6, capacity_gpus)
    assert (choice.extra_workers, choice.value) == (extra_workers, value)
    assert choice.gpus == 2 * extra_workers[0] + extra_workers[1]


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
        sum(group.values[more - 1] for group, more in zip(groups, choice, strict=True) if more)
        for choice in product(*(range(len(group.values) + 1) for group in groups))
        if sum(g.gpus_per_worker * more for g, more in zip(groups, choice, strict=True)) <= capacity_gpus
    )
    choice = choose_workers(groups, capacity_gpus)
    assert choice.value == pytest.approx(best, rel=1e-12, abs=1e-6)
    taken = [
        (group.gpus_per_worker * more, group.values[more - 1] if more else 0.0)
        for group, more in zip(groups, choice.extra_workers, strict=True)
    ]
    assert sum(gpus for gpus, _ in taken) == choice.gpus <= capacity_gpus
    assert sum(value for _, value in taken) == pytest.approx(choice.value, rel=1e-12, abs=1e-6)


def test_a_great_capacity_costs_no_memory() -> None:
    assert choose_workers(FIGURE_6, 10**12).extra_workers == (1, 4)


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
