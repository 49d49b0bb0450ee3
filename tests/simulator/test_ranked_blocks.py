"""A sorted collection with counts and weights agrees with counting one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.mechanisms import ranked_blocks
from simulator.mechanisms.ranked_blocks import RankedBlocks

KEYS = st.integers(0, 300)


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), KEYS, st.integers(1, 64)), max_size=200))
def test_it_agrees_with_counting_one_by_one(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked_blocks, "BLOCK", 6)  # several blocks already for a few keys
        ranked, plain = RankedBlocks(), {}
        for add, key, weight in steps:
            if add and key not in plain:
                ranked.add(key, weight)
                plain[key] = weight
            elif not add and key in plain:
                ranked.remove(key)
                del plain[key]
            smaller = [weight for other, weight in plain.items() if other < key]
            assert ranked.before(key) == (len(smaller), sum(smaller))
            assert len(ranked) == len(plain)


@pytest.mark.parametrize("key", [5, 15, 25])
def test_a_key_that_is_not_there_cannot_be_removed(key):
    ranked = RankedBlocks()
    ranked.add(10, 1)
    ranked.add(20, 1)
    with pytest.raises(KeyError):
        ranked.remove(key)
    assert ranked.before(100) == (2, 2)
