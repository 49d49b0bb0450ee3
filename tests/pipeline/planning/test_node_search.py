"""Least sizes found by few tries, sizes in proportion, and falling sequences, whatever the numbers."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pipeline.planning.size_search import NodeSearch, isotonic_falling
from pipeline.replay.proportional_sizes import in_proportion


def searched(search: NodeSearch, waits: dict[int, float], at_once: int) -> NodeSearch:
    tries = 0
    while sizes := search.asks(at_once):
        assert len(sizes) <= at_once
        assert not set(sizes) & set(search.values)
        for size in sizes:
            search.tell(size, waits[size])
            tries += 1
    assert tries <= 3 * at_once + 2 * len(waits).bit_length() * at_once
    return search


@given(
    waits=st.lists(st.integers(0, 100), min_size=1, max_size=200),
    start=st.integers(0, 250),
    limit=st.integers(0, 100),
    at_once=st.integers(1, 4),
)
def test_the_answer_holds_and_one_node_fewer_does_not(
    waits: list[int], start: int, limit: int, at_once: int
) -> None:
    of_size = {5 + i: float(wait) for i, wait in enumerate(waits)}
    most = 5 + len(waits) - 1
    found = searched(NodeSearch(5, start, most, lambda wait: wait <= limit), of_size, at_once)
    assert found.done
    if found.answer is None:
        assert of_size[most] > limit
    else:
        assert of_size[found.answer] <= limit
        assert found.answer == 5 or found.values[found.answer - 1] > limit


@given(
    waits=st.lists(st.integers(0, 100), min_size=1, max_size=200).map(
        lambda each: sorted(each, reverse=True)
    ),
    start=st.integers(0, 250),
    limit=st.integers(0, 100),
)
def test_of_falling_waits_it_is_the_least_size(waits: list[int], start: int, limit: int) -> None:
    of_size = {1 + i: float(wait) for i, wait in enumerate(waits)}
    found = searched(NodeSearch(1, start, len(waits), lambda wait: wait <= limit), of_size, 2)
    assert found.answer == min((size for size, wait in of_size.items() if wait <= limit), default=None)


@given(st.lists(st.integers(0, 1_000), max_size=40))
def test_the_nearest_falling_sequence(values: list[int]) -> None:
    smooth = isotonic_falling([float(value) for value in values])
    assert len(smooth) == len(values)
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(smooth))
    assert abs(sum(smooth) - sum(values)) < 1e-6
    if all(later <= earlier for earlier, later in itertools.pairwise(values)):
        assert smooth == values


SIZES = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.integers(0, 40), st.integers(0, 5), st.integers(0, 60)),
    min_size=1,
)


@given(SIZES)
def test_a_larger_cluster_has_every_node_of_a_smaller_one(sizes: dict[str, tuple[int, int, int]]) -> None:
    present = {name: now for name, (now, _, _) in sizes.items()}
    least = {name: own for name, (_, own, _) in sizes.items()}
    most = {name: max(own, room) for name, (_, own, room) in sizes.items()}
    full = sum(max(most[name], present[name]) for name in sizes)
    before = least
    for total in range(sum(least.values()), full + 1):
        nodes = in_proportion(total, present, least, most)
        assert sum(nodes.values()) == total
        assert all(before[name] <= nodes[name] <= max(most[name], present[name]) for name in sizes)
        before = nodes
    assert before == {name: max(most[name], present[name]) for name in sizes}
    if all(least[name] <= present[name] for name in sizes):
        assert in_proportion(sum(present.values()), present, least, most) == present
