"""Naive forecasts of busy nodes: whichever erred least so far."""

import numpy as np

from parts.node_sleep.replay.naive_forecast import DAY_BINS, NaiveForecaster

NEAR = 6


def said(busy: np.ndarray) -> tuple[float, float]:
    forecast = NaiveForecaster(NEAR).forecast(np.asarray(busy, dtype=float), 0.0)
    assert not forecast.near_peak
    return forecast.near_mean, forecast.far_mean


def test_a_trend_goes_on_from_the_newest_bin() -> None:
    assert said(np.arange(60)) == (59.0, 59.0)


def test_noise_has_the_mean_of_the_newest_bins() -> None:
    noise = np.tile([10, 30], 40)
    assert said(noise) == (20.0, 20.0)


def test_a_day_that_repeats_itself_is_known_from_the_day_before() -> None:
    day = 50 + 40 * np.sin(np.arange(DAY_BINS) / DAY_BINS * 2 * np.pi)
    busy = np.concatenate((day, day[:100]))
    near, far = said(busy)
    assert near == np.mean(day[100 : 100 + NEAR])
    assert far == np.mean(day[100 : 100 + 2 * NEAR])


def test_the_first_bins_stay() -> None:
    assert said([7]) == said([3, 7]) == (7.0, 7.0)
