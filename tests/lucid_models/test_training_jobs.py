"""A job of a crowd teaches the log head less, by what was known when it was learned."""

import numpy as np
import pytest

from lucid_models.duration.heads import crowd_weights

HOUR_S = 3_600.0


def test_a_crowd_of_one_owner_and_hour_counts_as_its_square_root() -> None:
    owners = ["ann"] * 9 + ["ann", "bob"]
    submit_s = np.array([*(60.0 * minute for minute in range(9)), 2 * HOUR_S, 60.0])
    weights = crowd_weights(owners, ["a"] * 11, submit_s, 1e9)
    assert weights[:9] == pytest.approx(1 / 3)
    assert weights[:9].sum() == pytest.approx(3.0)
    assert weights[9:].tolist() == [1.0, 1.0]


def test_where_no_owner_is_known_the_virtual_cluster_is_the_crowd() -> None:
    weights = crowd_weights(["", "", "", ""], ["a", "a", "b", "a"], np.array([0.0, 1.0, 2.0, HOUR_S]), 1e9)
    assert weights == pytest.approx([2**-0.5, 2**-0.5, 1.0, 1.0])


def test_what_is_submitted_later_changes_no_weight() -> None:
    owners, submit_s = ["ann"] * 6, np.array([0.0, 10.0, 20.0, 30.0, 40.0, 50.0])
    early = crowd_weights(owners[:3], ["a"] * 3, submit_s[:3], 25.0)
    assert crowd_weights(owners, ["a"] * 6, submit_s, 25.0)[:3].tolist() == early.tolist()
