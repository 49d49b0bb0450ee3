"""The paired block bootstrap, from the outside."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, UnknownNameError
from simulator.gate.bootstrap import block_numbers, paired_mean_change, paired_quantile_change

waits = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=2, max_size=60)


def _blocks(jobs: int, count: int) -> np.ndarray:
    return np.arange(jobs) % count


@given(values=waits, blocks=st.integers(1, 12), method=st.sampled_from(["bca", "percentile"]))
@settings(max_examples=60, deadline=None)
def test_identical_policies_differ_by_exactly_zero(values: list[float], blocks: int, method: str) -> None:
    change = paired_mean_change(values, values, _blocks(len(values), blocks), resamples=200, method=method)
    assert change.difference.point == 0.0
    if min(blocks, len(values)) > 1:
        assert (change.difference.low, change.difference.high) == (0.0, 0.0)
    else:
        assert (change.difference.low, change.difference.high) == (None, None)
    if change.relative_pct is not None and change.relative_pct.low is not None:
        assert (change.relative_pct.low, change.relative_pct.high) == (0.0, 0.0)
    tail = paired_quantile_change(values, values, _blocks(len(values), blocks), 0.9, resamples=200)
    assert tail.difference.point == 0.0
    assert tail.difference.high in (0.0, None)


@given(values=waits, shift=st.floats(-1e4, 1e4))
@settings(max_examples=60, deadline=None)
def test_a_constant_shift_is_recovered_whatever_the_blocks(values: list[float], shift: float) -> None:
    reference = np.asarray(values)
    change = paired_mean_change(reference + shift, reference, _blocks(len(values), 7), resamples=200)
    assert change.difference.point == pytest.approx(shift, abs=1e-6)
    assert change.difference.low == pytest.approx(shift, abs=1e-6)
    assert change.difference.high == pytest.approx(shift, abs=1e-6)


@given(values=waits, seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_the_interval_holds_the_bounds_in_order_and_repeats(values: list[float], seed: int) -> None:
    reference = np.asarray(values) + 1.0
    challenger = reference * np.linspace(0.5, 1.5, reference.size)
    blocks = _blocks(reference.size, 11)
    first = paired_mean_change(challenger, reference, blocks, resamples=200, seed=seed)
    again = paired_mean_change(challenger, reference, blocks, resamples=200, seed=seed)
    assert first == again
    assert first.relative_pct is not None
    for interval in (first.difference, first.relative_pct):
        assert interval.low is not None
        assert interval.high is not None
        assert interval.low <= interval.high


@given(
    values=st.lists(st.floats(0, 1e6), min_size=1, max_size=300),
    quantile=st.sampled_from([0.05, 0.5, 0.9, 0.99, 0.999]),
)
@settings(max_examples=80, deadline=None)
def test_the_quantile_inverts_the_distribution_function(values: list[float], quantile: float) -> None:
    reference = np.zeros(len(values))
    change = paired_quantile_change(values, reference, _blocks(len(values), 3), quantile, resamples=100)
    assert change.challenger == np.quantile(values, quantile, method="inverted_cdf")


def test_resampled_quantiles_equal_a_plain_resample_of_the_jobs() -> None:
    rng = np.random.default_rng(5)
    challenger, reference = rng.lognormal(6, 2, 900), rng.lognormal(6, 2, 900)
    blocks = rng.integers(0, 15, 900)
    change = paired_quantile_change(challenger, reference, blocks, 0.95, resamples=300, seed=3)
    counts = np.random.default_rng(3).multinomial(15, np.full(15, 1 / 15), size=300)
    drawn = []
    for row in counts:
        chosen = np.concatenate([np.repeat(np.flatnonzero(blocks == b), row[b]) for b in range(15)])
        new = np.quantile(challenger[chosen], 0.95, method="inverted_cdf")
        drawn.append(new - np.quantile(reference[chosen], 0.95, method="inverted_cdf"))
    assert change.difference.low == pytest.approx(np.quantile(drawn, 0.025))
    assert change.difference.high == pytest.approx(np.quantile(drawn, 0.975))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_intervals_cover_the_truth_about_as_often_as_they_say(method: str) -> None:
    """Jobs of a block share a strong effect: resampling jobs singly would cover too seldom."""
    rng = np.random.default_rng(11)
    blocks = np.repeat(np.arange(60), 20)
    covered, singly = 0, 0
    for trial in range(200):
        effect = rng.exponential(100.0, 60)[blocks]  # true mean change: 100 s
        reference = rng.lognormal(7, 1, blocks.size)
        challenger = reference + effect + rng.normal(0, 30, blocks.size)
        change = paired_mean_change(
            challenger, reference, blocks, resamples=400, seed=trial, method=method, confidence_pct=90
        ).difference
        alone = paired_mean_change(
            challenger, reference, np.arange(blocks.size), resamples=100, seed=trial, confidence_pct=90
        ).difference
        assert change.low is not None
        assert change.high is not None
        assert alone.low is not None
        assert alone.high is not None
        covered += change.low <= 100.0 <= change.high
        singly += alone.low <= 100.0 <= alone.high
    assert 0.84 <= covered / 200 <= 0.96
    assert singly / 200 < 0.6


def test_pairing_narrows_the_interval() -> None:
    rng = np.random.default_rng(2)
    blocks = np.repeat(np.arange(30), 50)
    busy_days = rng.lognormal(8, 1, 30)[blocks]
    change = paired_mean_change(busy_days * 0.95, busy_days, blocks).relative_pct
    assert change is not None
    assert change.point == pytest.approx(-5.0)
    assert change.low == pytest.approx(-5.0)
    assert change.high == pytest.approx(-5.0)


def test_few_blocks_are_said_to_be_unreliable() -> None:
    values = np.arange(40.0)
    few = paired_mean_change(values * 1.1, values, _blocks(40, 9)).difference
    enough = paired_mean_change(values * 1.1, values, _blocks(40, 10)).difference
    assert (few.reliable, enough.reliable) == (False, True)
    assert "9 blocks" in few.note
    one = paired_mean_change(values * 1.1, values, np.zeros(40)).difference
    assert (one.low, one.high, one.reliable) == (None, None, False)


def test_a_reference_that_never_waits_has_no_per_cent() -> None:
    change = paired_mean_change([3.0, 0.0, 3.0], [0.0, 0.0, 0.0], [0, 1, 2])
    assert change.relative_pct is None
    assert change.difference.point == pytest.approx(2.0)


def test_blocks_are_days_and_virtual_clusters() -> None:
    day = 86_400.0
    times = [0.0, day - 1, day, day + 5, 0.0, 3 * day]
    names = ["a", "a", "a", "b", "b", "a"]
    numbers = block_numbers(times, names)
    assert len(set(numbers.tolist())) == 5
    assert numbers[0] == numbers[1]
    shifted = block_numbers(times, names, origin_s=day / 2)
    assert shifted[1] == shifted[2]
    assert shifted[0] != shifted[1]


def test_bad_input_is_named() -> None:
    with pytest.raises(BadInputError, match="No job to compare"):
        paired_mean_change([], [], [])
    with pytest.raises(BadInputError, match="1 values to compare are not finite"):
        paired_mean_change([1.0, np.nan], [1.0, 2.0], [0, 1])
    with pytest.raises(BadInputError, match=r"\(2,\), \(3,\)"):
        paired_mean_change([1.0, 2.0], [1.0, 2.0, 3.0], [0, 1])
    with pytest.raises(UnknownNameError, match=r"'magic'.*bca"):
        paired_mean_change([1.0], [1.0], [0], method="magic")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="resamples is 5"):
        paired_mean_change([1.0], [1.0], [0], resamples=5)
    with pytest.raises(BadInputError, match=r"confidence_pct is 0\.95"):
        paired_mean_change([1.0], [1.0], [0], confidence_pct=0.95)
    with pytest.raises(BadInputError, match=r"quantile of 99\.9"):
        paired_quantile_change([1.0], [1.0], [0], 99.9)


def test_thousands_of_resamples_of_a_real_sized_log_are_quick() -> None:
    rng = np.random.default_rng(0)
    jobs = 20_000
    blocks = rng.integers(0, 150, jobs)
    reference = rng.lognormal(6, 2, jobs)
    start = time.process_time()
    paired_mean_change(reference * 1.01, reference, blocks, resamples=4_000)
    paired_quantile_change(reference * 1.01, reference, blocks, 0.999, resamples=4_000)
    assert time.process_time() - start < 3.0  # measured about 0.3 s on one core
