"""Replays of a node series: what they come to on real days, and what no decision may know."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cluster_logs.node_series import NodeSeries, read_node_series
from foundation.errors import BadInputError
from parts.node_sleep.replay.control import BIN_S, DemandForecast, NodeForecaster
from parts.node_sleep.replay.demand_window import DemandWindow, demand_window
from parts.node_sleep.replay.series_forecast import RememberingForecaster, SeriesForecaster
from parts.node_sleep.replay.series_replay import BootFailures, replay_bins, replay_minutes
from parts.node_sleep.replay.settings import SleepSettings
from parts.node_sleep.replay.timeline import SleepTimeline, figures_of
from tests.reference import ROOT

BIN_MINUTES = BIN_S // 60


class MeanOfPast:
    """A causal forecaster of the simplest kind."""

    def forecast(self, busy: NDArray[np.float64], last_bin_start_s: float) -> DemandForecast:
        return DemandForecast(float(busy[-6:].mean()), float(busy[-12:].mean()), {})


def series_of(minutes: list[int], total: int = 30) -> NodeSeries:
    running = np.array(minutes, dtype=np.float64)
    return NodeSeries(0.0, 60.0, running, np.full(len(running), float(total)), np.zeros(len(running), bool))


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def philly(gaps: str) -> DemandWindow:
    series = read_node_series(ROOT / "data/philly/philly_node_sequence.csv.gz", gaps=gaps)  # type: ignore[arg-type]
    return demand_window(series, at("2017-12-01"), at("2017-12-15"))


@pytest.mark.reference
@pytest.mark.parametrize(
    ("gaps", "buffer_nodes", "asleep", "wake_ups"),
    [("zero", 20, 115.155, 29), ("hold", 20, 114.803, 28), ("hold", 30, 107.884, 15), ("hold", 45, 98.68, 9)],
)
def test_plain_buffers_in_bins_are_as_measured_elsewhere(
    gaps: str, buffer_nodes: int, asleep: float, wake_ups: int
) -> None:
    timeline = replay_bins(philly(gaps), SleepSettings(buffer_nodes=buffer_nodes))
    figures = figures_of(timeline)
    assert figures.asleep_mean == pytest.approx(asleep, abs=5e-4)
    assert figures.wake_ups_per_day == pytest.approx(wake_ups / 14)


@pytest.mark.reference
def test_an_oracle_in_bins_is_as_measured_elsewhere() -> None:
    window = philly("hold")
    future = SeriesForecaster(window.bins.start_s, window.bins.running, 30)
    figures = figures_of(replay_bins(window, SleepSettings("forecast"), future))
    assert figures.asleep_mean == pytest.approx(107.773, abs=5e-4)
    assert figures.wake_ups_per_day == pytest.approx(10 / 14)


@pytest.mark.reference
def test_a_buffer_on_the_highest_of_an_hour_is_not_worse_than_a_plain_one() -> None:
    window = philly("hold")
    ours = figures_of(replay_minutes(window, SleepSettings(buffer_nodes=25, peak_bins=6)))
    assert ours.asleep_mean >= 103
    assert ours.wake_ups_per_day <= 1.15
    assert ours.node_minutes_short <= 430
    for buffer_nodes in range(20, 61):
        plain = figures_of(replay_minutes(window, SleepSettings(buffer_nodes=buffer_nodes)))
        assert (
            plain.asleep_mean <= ours.asleep_mean
            or plain.wake_ups_per_day >= ours.wake_ups_per_day
            or plain.node_minutes_short >= ours.node_minutes_short
        )


def test_a_booting_node_serves_nothing_until_it_has_booted() -> None:
    window = demand_window(series_of([5] * 13 + [12] * 17))
    timeline = replay_minutes(window, SleepSettings(buffer_nodes=2, boot_s=300))

    assert timeline.awake.tolist() == [7] * 18 + [14] * 12
    assert timeline.booting.tolist() == [0] * 13 + [7] * 5 + [0] * 12
    figures = figures_of(timeline)
    assert (figures.shortages, figures.node_minutes_short) == (1, 5 * 5)
    assert figures.nodes_per_wake_up == 7


def test_without_boot_time_demand_is_served_at_once() -> None:
    window = demand_window(series_of([5] * 13 + [12] * 17))
    timeline = replay_minutes(window, SleepSettings(buffer_nodes=2, boot_s=0))
    assert figures_of(timeline).node_minutes_short == 0


def test_boots_that_fail_are_tried_again() -> None:
    window = demand_window(series_of([5] * 10 + [20] * 50))
    settings = SleepSettings(buffer_nodes=0)
    failing = replay_minutes(window, settings, failures=BootFailures(0.5, seed=3))
    assert failing.failed_boots.sum() > 0
    assert failing.awake[-1] == 20
    assert (
        figures_of(failing).node_minutes_short
        > figures_of(replay_minutes(window, settings)).node_minutes_short
    )
    again = replay_minutes(window, settings, failures=BootFailures(0.5, seed=3))
    assert (failing.awake == again.awake).all()
    with pytest.raises(BadInputError, match="cannot fail"):
        BootFailures(1.0)


def test_nodes_that_leave_the_cluster_are_not_counted() -> None:
    series = series_of([5] * 40)
    series.total[20:] = 3
    timeline = replay_minutes(demand_window(series), SleepSettings(buffer_nodes=4))
    assert (timeline.awake + timeline.booting <= timeline.total).all()
    assert timeline.awake[-1] == 3


def test_longer_steps_are_cut_into_minutes() -> None:
    series = NodeSeries(0.0, 600.0, np.array([5.0, 9.0]), np.full(2, 20.0), np.zeros(2, bool))
    timeline = replay_minutes(demand_window(series), SleepSettings(buffer_nodes=0))
    assert (timeline.step_s, len(timeline.awake)) == (60.0, 20)
    assert figures_of(timeline).node_minutes_short == 5 * 4


def test_a_window_is_made_of_whole_bins() -> None:
    series = replace(series_of(list(range(47))), start_s=180.0)
    window = demand_window(series)
    assert (window.start_s, window.running.shape) == (600.0, (4, 10))
    assert window.running[0, 0] == 7
    assert (window.bins_before, window.bins.running.tolist()) == (1, [6, 16, 26, 36, 46])
    with pytest.raises(BadInputError, match="no whole bin"):
        demand_window(series, 3_000)
    with pytest.raises(BadInputError, match="do not fill"):
        demand_window(replace(series, step_s=70.0))


counts = st.lists(st.integers(0, 30), min_size=40, max_size=150)
CONTROLS: list[tuple[SleepSettings, Callable[[], NodeForecaster | None]]] = [
    (SleepSettings("buffer", buffer_nodes=3, keep_bins=1), lambda: None),
    (SleepSettings("buffer", buffer_nodes=2, keep_bins=0, peak_bins=3, boot_s=120), lambda: None),
    (SleepSettings("forecast", buffer_nodes=1, keep_bins=1), lambda: RememberingForecaster(MeanOfPast())),
    (SleepSettings("off"), lambda: None),
]


def decisions(timeline: SleepTimeline, steps: int) -> list[list[int]]:
    return [values[:steps].tolist() for values in (timeline.awake, timeline.booting, timeline.woken)]


@given(counts, st.data(), st.sampled_from(CONTROLS), st.sampled_from([0.0, 0.3]))
def test_no_decision_knows_a_later_minute(
    minutes: list[int],
    drawn: st.DataObject,
    control: tuple[SleepSettings, Callable[[], NodeForecaster | None]],
    share: float,
) -> None:
    settings, forecaster = control
    changed_at = drawn.draw(st.integers(0, len(minutes) // BIN_MINUTES * BIN_MINUTES - 1))
    other = [*minutes]
    other[changed_at] = drawn.draw(st.integers(0, 30))
    first, second = (
        replay_minutes(
            demand_window(series_of(values)), settings, forecaster(), failures=BootFailures(share, seed=1)
        )
        for values in (minutes, other)
    )
    assert decisions(first, changed_at) == decisions(second, changed_at)


@given(counts, st.data(), st.sampled_from(CONTROLS))
def test_no_decision_in_bins_knows_a_later_bin(
    minutes: list[int],
    drawn: st.DataObject,
    control: tuple[SleepSettings, Callable[[], NodeForecaster | None]],
) -> None:
    settings, forecaster = control
    changed_at = drawn.draw(st.integers(0, len(minutes) // BIN_MINUTES * BIN_MINUTES - 1))
    other = [*minutes]
    other[changed_at] = drawn.draw(st.integers(0, 30))
    first, second = (
        replay_bins(demand_window(series_of(values)), settings, forecaster()) for values in (minutes, other)
    )
    assert decisions(first, changed_at // BIN_MINUTES) == decisions(second, changed_at // BIN_MINUTES)


@given(counts, st.sampled_from(CONTROLS), st.sampled_from([0.0, 0.3]))
def test_every_node_is_in_one_state_and_boots_last_as_long_as_they_do(
    minutes: list[int],
    control: tuple[SleepSettings, Callable[[], NodeForecaster | None]],
    share: float,
) -> None:
    settings, forecaster = control
    timeline = replay_minutes(
        demand_window(series_of(minutes)), settings, forecaster(), failures=BootFailures(share)
    )
    assert (timeline.awake >= 0).all()
    assert (timeline.booting >= 0).all()
    assert (timeline.awake + timeline.booting <= timeline.total).all()
    # Awake nodes become more only by those that were woken a boot ago.
    steps = int(settings.boot_s // 60)
    risen = np.maximum(0, np.diff(timeline.awake, prepend=timeline.awake[:1]))
    begun = np.concatenate((np.zeros(steps, dtype=np.int64), timeline.woken))[: len(risen)]
    assert (risen <= begun).all()
    figures = figures_of(timeline)
    assert 0 <= figures.asleep_mean <= 30
    assert 0 <= figures.utilisation_after_pct <= 100
