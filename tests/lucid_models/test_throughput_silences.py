"""Silences longer than usual: which they are, and that nothing knows of their end before it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lucid_models.throughput.silences import as_known, newest_known, usual_silence_bins

DAY_BINS = 144
COUNTS = st.lists(st.sampled_from([0.0, 0.0, 1.0, 5.0, np.nan]), min_size=1, max_size=60)


def test_silences_as_long_as_usual_are_believed() -> None:
    nights = np.tile(np.r_[np.zeros(40), np.full(104, 3.0)], 10)
    # A silence is over with the third bin that brought something.
    assert usual_silence_bins(nights, DAY_BINS) == 2 * 42
    np.testing.assert_array_equal(newest_known(nights, 84), nights)
    assert usual_silence_bins(np.ones(DAY_BINS * 3), DAY_BINS) == DAY_BINS // 8


def test_in_a_sparse_series_no_silence_is_unusual() -> None:
    assert usual_silence_bins(np.tile(np.r_[np.zeros(130), np.ones(14)], 10), DAY_BINS) == 0
    assert usual_silence_bins(np.tile([0.0, 2.0], 500), DAY_BINS) == 0
    assert usual_silence_bins(np.ones(100), DAY_BINS) == 0


def test_a_long_silence_is_unknown_once_it_is_over() -> None:
    counts = np.full(100, 4.0)
    counts[40:80] = 0.0
    counts[60] = 1.0  # a job here and there does not end it
    known = newest_known(counts, 30)
    assert np.flatnonzero(np.isnan(known)).tolist() == list(range(40, 80))
    assert not np.isnan(newest_known(counts[:82], 30)).any()
    assert np.isnan(newest_known(counts[:83], 30)).any()
    np.testing.assert_array_equal(newest_known(counts, 0), counts)


@given(COUNTS, st.integers(0, 8), st.integers(0, 60))
def test_what_is_known_comes_from_the_past_alone(counts: list[float], usual_bins: int, cut: int) -> None:
    values = np.array(counts)
    turns = [(first, known) for first, known in as_known(values, usual_bins) if first <= cut]
    before = values[: cut + 1]
    np.testing.assert_array_equal(turns[-1][1][: cut + 1], newest_known(before, usual_bins))
    assert [first for first, _ in turns] == [first for first, _ in as_known(before, usual_bins)]
