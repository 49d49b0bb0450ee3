"""Consolidated placement: the stated rules, and equality with a search written the obvious way."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.placement import FreeGpus

SIZE = 8


def obvious(free: list[int], gpus: int, remainder: str):
    """Find a place by looking at every node, as the rules are written down."""
    if gpus <= SIZE:
        fits = [node for node, left in enumerate(free) if left >= gpus]
        return ((min(fits, key=lambda node: (free[node], node)), gpus),) if fits else None
    whole, rest = divmod(gpus, SIZE)
    idle = [node for node, left in enumerate(free) if left == SIZE][:whole]
    if len(idle) < whole:
        return None
    placement = tuple((node, SIZE) for node in idle)
    if not rest:
        return placement
    fits = [node for node, left in enumerate(free) if left >= rest and node not in idle]
    if not fits:
        return None
    sign = 1 if remainder == "fullest" else -1
    return (*placement, (min(fits, key=lambda node: (sign * free[node], node)), rest))


def occupied(free: list[int], remainder: str) -> FreeGpus:
    gpus = FreeGpus(len(free), SIZE, remainder)
    gpus.take(tuple((node, SIZE - left) for node, left in enumerate(free)))
    return gpus


@given(
    free=st.lists(st.integers(0, SIZE), min_size=1, max_size=12),
    gpus=st.integers(1, 40),
    remainder=st.sampled_from(["fullest", "freest"]),
)
def test_equals_looking_at_every_node(free, gpus, remainder):
    assert occupied(free, remainder).find(gpus) == obvious(free, gpus, remainder)


@given(
    nodes=st.integers(1, 6),
    steps=st.lists(st.tuples(st.booleans(), st.integers(1, 30)), max_size=40),
)
def test_taking_and_giving_back_keeps_the_books(nodes, steps):
    gpus = FreeGpus(nodes, SIZE)
    held = []
    for give, demand in steps:
        if give and held:
            gpus.give(held.pop(demand % len(held)))
        elif (placement := gpus.place(demand)) is not None:
            assert sum(count for _, count in placement) == demand
            held.append(placement)
        used = [sum(c for placement in held for n, c in placement if n == node) for node in range(nodes)]
        assert [gpus.on_node(node) for node in range(nodes)] == [SIZE - count for count in used]
        assert gpus.total == nodes * SIZE - sum(used)


def test_a_plan_leaves_the_original_alone():
    gpus = FreeGpus(2, SIZE)
    gpus.copy().place(16)
    assert gpus.total == 16
    assert gpus.find(16) == ((0, 8), (1, 8))
