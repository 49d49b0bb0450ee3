"""Consolidated placement: the stated rules, and equality with a search written the obvious way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.node_bits import lowest, lowest_of, nodes_of
from simulator.cluster.placement import FreeGpus, Placement, exchanged, free_gpus, without


class EveryNode:
    """The same rules by looking at every node, as they are written down: nodes are a list."""

    def __init__(self, sizes, remainder):
        self.sizes, self.remainder = sizes, remainder
        self.free, self.gone = list(sizes), set()

    def find(self, gpus, among):
        allowed = [n for n in range(len(self.sizes)) if among is None or among >> n & 1]
        one_could = any(self.sizes[n] >= gpus for n in allowed)
        left = {n: self.free[n] for n in allowed if n not in self.gone}
        taken = []
        while gpus:
            sign = -1 if taken and self.remainder == "freest" else 1
            fits = [n for n in left if left[n] >= gpus]
            if fits:
                return (*taken, (min(fits, key=lambda n: (sign * left[n], n)), gpus))
            idle = [] if one_could else [n for n in left if left[n] == self.sizes[n]]
            if not idle:
                return None
            node = min(idle, key=lambda n: (-self.sizes[n], n))
            taken.append((node, left.pop(node)))
            gpus -= self.sizes[node]
        return tuple(taken)

    def move(self, pairs, sign):
        for node, gpus in pairs:
            self.free[node] += sign * gpus


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "place", "place", "give", "give", "part", "withdraw", "restore", "add"]),
        st.integers(1, 40),
        st.none() | st.integers(0, 2**9 - 1),
    ),
    max_size=60,
)
SIZES = st.lists(st.integers(1, 8), min_size=1, max_size=7) | st.builds(
    lambda size, nodes: [size] * nodes, st.integers(1, 40), st.integers(1, 7)
)


@settings(max_examples=400)
@given(sizes=SIZES, steps=STEPS, remainder=st.sampled_from(["fullest", "freest"]))
def test_equals_looking_at_every_node(sizes, steps, remainder):
    ours, plain = free_gpus(sizes, 8, remainder), EveryNode(list(sizes), remainder)
    held = []
    for what, number, among in steps:
        node = number % len(plain.sizes)
        if what == "place":
            found = ours.find(number, among)
            assert found == plain.find(number, among)
            assert ours.fits(number, among) == (found is not None)
            if found is not None:
                assert Placement.of(tuple(found)) == found
                assert (found.gpus, len(found)) == (number, len(tuple(found)))
                held.append(found)
                ours.take(found)
                plain.move(found, -1)
        elif what == "give" and held:
            gone = held.pop(number % len(held))
            ours.give(gone)
            plain.move(gone, 1)
        elif what == "part" and held:  # as an elastic job shrinks
            whole = held.pop(number % len(held))
            kept = Placement.of([(n, max(0, gpus - number % 5)) for n, gpus in whole])
            gone = without(whole, kept)
            assert exchanged(whole, kept)[0] == gone
            held.append(kept)
            ours.give(gone)
            plain.move(gone, 1)
        elif what == "withdraw":
            ours.withdraw(node)
            plain.gone.add(node)
        elif what == "restore":
            ours.restore(node)
            plain.gone.discard(node)
        elif what == "add" and len(plain.sizes) < 9:
            plain.sizes.append(max(sizes))
            plain.free.append(max(sizes))
            assert ours.add_node() == len(plain.sizes) - 1
        there = [n for n in range(len(plain.sizes)) if n not in plain.gone]
        assert ours.nodes == len(plain.sizes)
        assert [ours.on_node(n) for n in range(len(plain.sizes))] == plain.free
        assert [n for n in range(ours.nodes) if ours.is_present(n)] == there
        assert ours.total == sum(plain.free[n] for n in there)
        assert ours.idle_nodes() == [n for n in there if plain.free[n] == plain.sizes[n]]
        assert [max(-1, free) for free in ours.per_node()] == [
            plain.free[n] if n in there else -1 for n in range(ours.nodes)
        ]
        assert nodes_of(ours.having(3)) == [n for n in there if plain.free[n] >= 3]


@given(
    free=st.lists(st.integers(0, 8), min_size=1, max_size=9),
    among=st.integers(0, 511),
    most=st.integers(0, 8),
)
def test_some_nodes_may_be_offered_in_part(free, among, most):
    gpus = FreeGpus(len(free), 8)
    gpus.take([(node, 8 - left) for node, left in enumerate(free)])
    gpus.limit(among, most)
    left = [min(each, most) if among >> node & 1 else each for node, each in enumerate(free)]
    assert (gpus.per_node(), gpus.total) == (left, sum(left))
    assert gpus.by_free(among) == [
        (each, sum(1 << node for node, has in enumerate(left) if has == each and among >> node & 1))
        for each in sorted({has for node, has in enumerate(left) if among >> node & 1})
    ]


@given(
    pairs=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 3)), max_size=12, unique_by=lambda pair: pair[0]
    )
)
def test_a_placement_is_its_pairs(pairs):
    placement = Placement.of(pairs)
    assert list(placement) == pairs == list(Placement.of(iter(placement)))
    assert placement == tuple(pairs)
    assert hash(placement) == hash(tuple(pairs))
    assert (len(placement), bool(placement)) == (len(pairs), bool(pairs))
    assert placement.gpus == sum(gpus for _, gpus in pairs)
    assert nodes_of(placement.nodes) == sorted(node for node, _ in pairs)
    assert [placement[at] for at in range(len(pairs))] == pairs


@given(nodes=st.sets(st.integers(0, 9_000), min_size=1, max_size=60), data=st.data())
def test_sets_of_nodes(nodes, data):
    bits, in_order = sum(1 << node for node in nodes), sorted(nodes)
    count = data.draw(st.integers(1, len(nodes)))
    assert nodes_of(bits) == in_order
    assert nodes_of(lowest(bits)) == in_order[:1]
    assert nodes_of(lowest_of(bits, count)) == in_order[:count]
    full = (1 << max(nodes) + 5_000) - 1
    assert nodes_of(lowest_of(full, max(nodes) + 1)) == list(range(max(nodes) + 1))


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([(1, 3)], "node 1 has 2 free GPUs, not 3"),
        ([(0, 8), (1, 8)], "node 1 has 2"),
        ([(2, 1)], "has no free"),
    ],
)
def test_taken_gpus_are_not_given_out_again(pairs, said):
    gpus = FreeGpus(3, 8)
    gpus.take([(1, 6)])
    gpus.withdraw(2)
    with pytest.raises(ValueError, match=said):
        gpus.take(pairs)
    with pytest.raises(ValueError, match="cannot get 7 more"):
        gpus.give([(1, 7)])
    with pytest.raises(ValueError, match="node 3 has no free"):
        gpus.take([(3, 1)])


def test_a_plan_leaves_the_original_alone():
    gpus = FreeGpus(2, 8)
    gpus.copy().place(16)
    assert gpus.total == 16
    assert gpus.find(16) == ((0, 8), (1, 8))
