"""The naive rivals: what they may read, and that a short history gives fewer of them, not an error."""

import numpy as np
import pytest

from lucid_models.evaluation.baselines import throughput_baselines

BIN_S = 600


@pytest.mark.parametrize("bins", [1, 4, 5, 6, 143, 144, 145, 1_006, 1_008, 1_011])
def test_a_history_of_any_length_gives_every_rival(bins: int) -> None:
    forecasts = throughput_baselines(np.arange(bins, dtype=float), 5, BIN_S)
    assert {"zero", "last_value", "same_time_yesterday", "same_time_last_week"} <= set(forecasts)
    assert {forecast.shape for forecast in forecasts.values()} == {(bins,)}


def test_no_rival_reads_beyond_the_lead() -> None:
    counts = np.random.default_rng(0).poisson(5.0, 2_000).astype(float)
    before = throughput_baselines(counts, 5, BIN_S)
    counts[1_500:] = 1e9
    after = throughput_baselines(counts, 5, BIN_S)
    for name, forecast in before.items():
        np.testing.assert_array_equal(forecast[:1_505], after[name][:1_505])


def test_the_rivals_are_what_their_names_say() -> None:
    counts = np.arange(2_000, dtype=float)
    forecasts = throughput_baselines(counts, 5, BIN_S)
    assert forecasts["last_value"][100] == 95
    assert forecasts["same_time_yesterday"][1_500] == 1_500 - 144
    assert forecasts["same_time_last_week"][1_500] == 1_500 - 1_008
    assert forecasts["rolling_mean_6"][100] == np.mean(np.arange(90, 96))
