"""Settings chosen on past weeks, and what sleep saves."""

import numpy as np
import pytest

from cluster_logs.node_series import NodeSeries
from foundation.errors import BadInputError
from parts.node_sleep.replay.choice import SleepLimits, candidates, choose_settings
from parts.node_sleep.replay.demand_window import demand_window
from parts.node_sleep.replay.power_history import energy_saved
from parts.node_sleep.replay.series_forecast import SeriesForecaster
from parts.node_sleep.replay.series_replay import replay_minutes
from parts.node_sleep.replay.settings import SleepSettings
from simulator.energy import EnergySettings

DAY = 144


def days_of(*days: list[int]) -> NodeSeries:
    running = np.array([value for day in days for value in day], dtype=np.float64)
    return NodeSeries(0.0, 600.0, running, np.full(len(running), 100.0), np.zeros(len(running), bool))


# By day 60 nodes are busy, by night 40; every fourth day jumps.
USUAL = [40] * 48 + [60] * 72 + [40] * 24
JUMPY = [40] * 48 + [60, 75] * 36 + [40] * 24
WEEKS = days_of(*[JUMPY if day % 4 == 3 else USUAL for day in range(21)])


def test_candidates_are_sizes_by_bins_and_hold_all_else() -> None:
    settings = SleepSettings("buffer", keep_bins=7)
    tried = candidates(settings, 420)
    assert len(tried) == len(set(tried)) == 55
    assert {size.buffer_nodes for size in tried} >= {4, 21, 63}
    assert {size.keep_bins for size in tried} == {7}
    assert {size.buffer_nodes for size in candidates(settings, 3)} == {1}


def chosen(limits: SleepLimits, *, with_oracle: bool) -> tuple[str, int, str]:
    window = demand_window(WEEKS)
    oracle = SeriesForecaster(window.bins.start_s, window.bins.running, 30)
    choice = choose_settings(
        lambda settings: replay_minutes(window, settings, oracle),
        candidates(SleepSettings("buffer"), 100)[::4],
        candidates(SleepSettings("forecast"), 100)[::4] if with_oracle else [],
        limits,
    )
    return choice.settings.control, choice.settings.buffer_nodes, choice.reason


def test_the_choice_keeps_the_limits_with_most_nodes_asleep() -> None:
    window = demand_window(WEEKS)
    limits = SleepLimits(wake_ups_per_day=2.0, node_minutes_short_per_day=1e6)
    buffers = candidates(SleepSettings("buffer"), 100)[::4]
    choice = choose_settings(lambda settings: replay_minutes(window, settings), buffers, [], limits)
    assert choice.weeks == 3
    assert choice.settings in buffers
    assert choice.buffer.within_limits
    assert choice.buffer.wake_ups_per_day <= 2.0
    strict = choose_settings(
        lambda settings: replay_minutes(window, settings), buffers, [], SleepLimits(0.0, 0.0)
    )
    assert strict.buffer.asleep_mean < choice.buffer.asleep_mean


def test_limits_that_nothing_keeps_are_exceeded_least() -> None:
    buffers = [SleepSettings("buffer", buffer_nodes=1), SleepSettings("buffer", buffer_nodes=3)]
    window = demand_window(WEEKS)
    choice = choose_settings(
        lambda settings: replay_minutes(window, settings), buffers, [], SleepLimits(0.0, 0.0)
    )
    assert not choice.buffer.within_limits
    assert "Nothing tried kept the limits" in choice.reason
    assert choice.settings == buffers[1]


def test_the_buffer_is_used_where_a_forecast_is_not_better() -> None:
    loose = SleepLimits(1e6, 1e6)
    control, nodes, reason = chosen(loose, with_oracle=True)
    assert (control, nodes) == ("buffer", 1)
    assert "a buffer is enough" in reason
    assert "no forecast was tried" in chosen(loose, with_oracle=False)[2]
    with pytest.raises(BadInputError, match="limit wake_ups_per_day"):
        SleepLimits(-1.0)


def test_a_forecast_is_used_where_it_is_better() -> None:
    control, _, reason = chosen(SleepLimits(0.0, 0.0), with_oracle=True)
    assert control == "forecast"
    assert "the forecast is used" in reason


def test_energy_is_as_published() -> None:
    # Helios, section 4.3: the artifact counts 1.67 GWh a year for the 79.5 nodes of four clusters.
    saved = energy_saved(79.5, 365.0, EnergySettings())
    assert saved.kwh == pytest.approx(1.671e6, rel=1e-3)
    assert saved.kwh_per_year == pytest.approx(saved.kwh)
    assert saved.cost == pytest.approx(saved.kwh * 0.10)
    assert saved.co2_kg == pytest.approx(saved.kwh * 0.4)
    with pytest.raises(BadInputError, match="idle_w"):
        EnergySettings(idle_w=float("inf"))
