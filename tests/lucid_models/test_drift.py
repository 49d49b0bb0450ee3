"""The population stability index: sane bins, ties, unknown values, levels, and what is usual."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lucid_models.drift import (
    LEAST_ROWS,
    MOST_BINS,
    level_drift,
    number_drift,
    quantile_edges,
    stability_index,
    window_numbers,
)

RNG = np.random.default_rng(0)
counts = hnp.arrays(np.int64, st.integers(2, 12), elements=st.integers(0, 10_000))


def test_the_index_of_known_shares():
    """10 % and 20 % change places: 2 x 0.1 x ln 2."""
    reference, live = [100_000, 200_000, 700_000], [200_000, 100_000, 700_000]
    assert stability_index(reference, live) == pytest.approx(0.2 * np.log(2), rel=1e-4)


@given(counts, st.integers(0, 2**31))
def test_the_index_is_zero_for_equal_shares_symmetric_and_never_negative(reference, seed):
    live = np.random.default_rng(seed).permutation(reference)
    assert stability_index(reference, reference) == 0.0
    assert stability_index(reference, live) >= 0.0
    assert stability_index(reference, live) == pytest.approx(stability_index(live, reference))


@given(
    hnp.arrays(np.float64, st.integers(1, 300), elements=st.floats(-1e9, 1e9)),
)
def test_bins_rise_and_are_few(values):
    edges = quantile_edges(values)
    assert (np.diff(edges) > 0).all()
    assert len(edges) <= MOST_BINS  # so at most eleven bins


def test_empty_bins_have_a_floor():
    """A value that training never saw makes a large index, not an infinite one."""
    drift = number_drift("x", np.ones(1_000), np.full(1_000, 5.0))
    assert drift.psi is not None
    assert 5 < drift.psi < 100


def test_quantile_bins_do_not_depend_on_the_scale():
    old, new = RNG.lognormal(6, 3, 5_000), RNG.lognormal(7, 3, 900)
    assert number_drift("x", old, new).psi == number_drift("x", np.log(old), np.log(new)).psi


def test_ties_share_a_bin_and_what_was_never_seen_has_its_own():
    old = RNG.choice([1, 2, 4, 8], 4_000, p=[0.7, 0.1, 0.1, 0.1])
    drift = number_drift("gpus", old, 2 * old)
    assert [each.label for each in drift.bins] == ["1", "2", "4", "8", "above 8"]
    assert sum(each.reference for each in drift.bins) == pytest.approx(1)
    assert sum(each.live for each in drift.bins) == pytest.approx(1)
    assert drift.bins[0].live == 0
    assert drift.psi > 1


@pytest.mark.parametrize(("shift", "major"), [(0.0, False), (0.05, False), (1.0, True)])
def test_a_shift_of_one_deviation_is_major_and_none_is_none(shift, major):
    old, new = RNG.normal(0, 1, 20_000), RNG.normal(shift, 1, 4_000)
    assert (number_drift("x", old, new).psi >= 0.25) is major


def test_unknown_values_are_a_bin():
    old, new = RNG.normal(0, 1, 1_000), RNG.normal(0, 1, 1_000)
    new[:500] = np.nan
    drift = number_drift("x", old, new)
    assert drift.bins[-1].label == "unknown"
    assert drift.bins[-1].live == 0.5
    assert drift.psi > 0.25


@pytest.mark.parametrize("rows", [0, 1, LEAST_ROWS - 1])
def test_too_few_rows_are_said_instead_of_a_number(rows):
    drift = number_drift("x", np.arange(1_000), np.arange(rows))
    assert drift.psi is None
    assert "too few rows" in drift.note
    assert f"{rows:,} now" in drift.note
    assert level_drift("x", ["a"] * 1_000, ["a"] * rows).psi is None


def test_all_unknown_in_training_is_said():
    assert "too few rows: 0 in training" in number_drift("x", np.full(500, np.nan), np.arange(500)).note


def test_levels_that_training_never_saw():
    old = ["a"] * 500 + ["b"] * 300 + [f"rare{i}" for i in range(200)]
    drift = level_drift("user", old, ["new"] * 100 + ["a"] * 300 + [None] * 100)
    assert drift.unseen_share == 0.25  # of those whose user is known
    assert drift.bins[-1].label == "unknown"
    renamed = level_drift("user", old, [f"x{level}" for level in old])
    assert renamed.unseen_share == 1.0
    assert renamed.psi > 1


def test_the_order_of_rows_changes_nothing():
    old = pd.Series([f"u{n}" for n in RNG.integers(0, 40, 2_000)])
    new = pd.Series([f"u{n}" for n in RNG.integers(5, 45, 500)])
    assert level_drift("user", old, new) == level_drift("user", old[::-1], new.sample(frac=1, random_state=1))


def test_windows_are_whole_and_count_backwards():
    days = np.arange(0, 30.0, 0.5) * 86_400
    numbers = window_numbers(days, 30 * 86_400, 7 * 86_400)
    assert numbers[-1] == 0
    assert [int((numbers == week).sum()) for week in range(4)] == [14] * 4
    assert (numbers[:4] == -1).all()  # the two days before the four whole weeks
    assert numbers[4] == 3


def test_usual_is_the_largest_shift_between_the_reference_s_own_windows():
    """Four weeks of which one is quite different: a live week like that one is nothing new."""
    weeks = [RNG.normal(3 if week == 2 else 0, 1, 1_000) for week in range(4)]
    windows = np.repeat([3, 2, 1, 0], 1_000)
    drift = number_drift("x", np.concatenate(weeks), RNG.normal(3, 1, 1_000), windows)
    assert drift.usual_psi > drift.psi > 0.25
    assert number_drift("x", weeks[0], weeks[1], np.zeros(1_000, dtype=int)).usual_psi is None


def test_usual_news_are_those_of_the_last_window():
    old = [f"u{n % 10}" for n in range(900)] + ["late"] * 25 + ["u0"] * 75
    windows = np.array([1] * 900 + [0] * 100)
    assert level_drift("user", old, old[:200], windows).usual_unseen_share == 0.25


# Few rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old_rows", [100, 1_000, 10_000])
@pytest.mark.parametrize("live_rows", [100, 400, 3_000])
@pytest.mark.parametrize("levels", [2, 5, None])
def test_an_unchanged_column_is_told_as_moved_in_less_than_one_of_fifty_windows(
    old_rows: int, live_rows: int, levels: int | None
) -> None:
    """Numbers of a few kinds, the last one rare, or of any (eleven bins)."""
    rng = np.random.default_rng(0)
    shares = 0.6 ** np.arange(levels or 1)

    def rows(count: int) -> np.ndarray:
        if levels is None:
            return rng.normal(size=count)
        return rng.choice(levels, count, p=shares / shares.sum()).astype(float)

    drifts = [number_drift("x", rows(old_rows), rows(live_rows)) for _ in range(100)]
    assert sum(drift.psi >= drift.limit(0.1) for drift in drifts) < 2
    assert not any(drift.psi >= drift.limit(0.25) for drift in drifts)


def test_a_column_that_moved_is_told_however_few_rows_there_are() -> None:
    old, live = RNG.normal(0, 1, 3_000), RNG.normal(2, 1, 100)
    drift = number_drift("x", old, live)
    assert drift.psi > drift.limit(0.25)


def test_the_limit_of_many_rows_is_the_shift_itself() -> None:
    drift = number_drift("x", RNG.normal(size=400_000), RNG.normal(size=400_000))
    assert drift.limit(0.1) == pytest.approx(0.1, rel=0.001)
    assert number_drift("x", np.ones(200), np.ones(200)).limit(0.1) == 0.1  # one bin


def test_the_share_of_unseen_levels_may_be_chance_in_few_rows() -> None:
    few, many = (level_drift("user", ["a"] * 1_000, ["a"] * rows) for rows in (100, 100_000))
    assert few.unseen_limit(0.3) == pytest.approx(0.3 + 3.09 * 0.0458, abs=0.001)
    assert many.unseen_limit(0.3) == pytest.approx(0.3, abs=0.005)
    assert few.unseen_limit(1.0) == 1.0
