"""Controls of sleeping nodes: numbers in, numbers out."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from foundation.errors import BadInputError, UnknownNameError
from parts.node_sleep.replay.control import (
    BIN_S,
    DemandForecast,
    SleepObservation,
    SleepSettings,
    open_control,
)

SETTINGS = SleepSettings(buffer_nodes=5, keep_bins=2)


class Says:
    def __init__(self, near: float, far: float) -> None:
        self.answer = DemandForecast(near, far, {})
        self.asked: list[tuple[list[float], float]] = []

    def forecast(self, busy: NDArray[np.float64], last_bin_start_s: float) -> DemandForecast:
        self.asked.append((busy.tolist(), last_bin_start_s))
        return self.answer


def seen(
    now_s: float = 6000.0,
    *,
    total: int = 100,
    awake: int = 60,
    booting: int = 0,
    busy: int = 40,
    short: int = 0,
) -> SleepObservation:
    return SleepObservation(now_s, total, awake, booting, busy, short)


def bins(*values: float) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def test_buffer_sleeps_down_to_the_newest_bin_and_the_buffer() -> None:
    control = open_control(SETTINGS)
    assert control.sleep(seen(), bins(50, 42)) == 60 - 47
    assert control.sleep(seen(busy=44), bins(50, 42)) == 60 - 49  # demand rose since the bin ended
    assert control.sleep(seen(), bins()) == 0
    assert open_control(replace(SETTINGS, least_nodes=14)).sleep(seen(), bins(50, 42)) == 0
    assert open_control(replace(SETTINGS, min_awake=58)).sleep(seen(), bins(50, 42)) == 2


def test_what_is_short_is_woken_with_the_buffer_and_then_kept() -> None:
    control = open_control(SETTINGS)
    short = seen(awake=60, busy=60, short=3)
    assert control.wake(short) == 8
    assert control.wake(replace(short, booting=8)) == 0  # they boot already
    assert control.wake(replace(short, booting=8, short=10)) == 7
    assert control.wake(replace(short, total=62)) == 2  # no more are there
    assert control.sleep(seen(6000 + 2 * BIN_S - 1), bins(42)) == 0
    assert control.sleep(seen(6000 + 2 * BIN_S), bins(42)) == 13


def test_nodes_are_woken_for_the_least_that_stay_awake() -> None:
    assert open_control(replace(SETTINGS, min_awake=70)).wake(seen()) == 10


def test_off_keeps_all_awake() -> None:
    control = open_control(SleepSettings("off"))
    assert control.wake(seen(booting=5)) == 35
    assert control.sleep(seen(), bins(1)) == 0


@pytest.mark.parametrize(
    ("past", "near", "far", "nodes"),
    [
        ((50, 50, 42), 41.0, 41.0, 13),
        ((42, 42, 42), 41.0, 41.0, 0),  # does not fall
        ((50, 50, 42), 43.0, 41.0, 0),  # will rise
        ((50, 50, 42), 41.0, 41.5, 0),  # will rise again
        ((50, 42), 41.0, 41.0, 0),  # too young
    ],
)
def test_forecast_asks_before_nodes_sleep(
    past: tuple[float, ...], near: float, far: float, nodes: int
) -> None:
    says = Says(near, far)
    control = open_control(replace(SETTINGS, control="forecast"), says)
    assert control.sleep(seen(6100), bins(*past)) == nodes
    assert all(asked == (list(past), 5400.0) for asked in says.asked)


def test_a_restarted_control_stays_quiet() -> None:
    assert open_control(SETTINGS, quiet_until_s=6001).sleep(seen(), bins(42)) == 0


def test_what_cannot_be_opened_is_named() -> None:
    with pytest.raises(BadInputError, match="no forecaster"):
        open_control(SleepSettings("forecast"))
    with pytest.raises(BadInputError, match="reads the future"):
        open_control(SleepSettings("helios-artifact"))
    with pytest.raises(UnknownNameError, match=r"'bufer'.*buffer, forecast"):
        SleepSettings("bufer")
    with pytest.raises(UnknownNameError, match="sigma"):
        SleepSettings.from_data({"sigma": 3})
    for name, value in (("buffer_nodes", -1), ("past_bins", 0), ("keep_bins", 1.5), ("boot_s", float("nan"))):
        with pytest.raises(BadInputError, match=name):
            SleepSettings.from_data({name: value})


def test_settings_come_back_from_json() -> None:
    settings = SleepSettings("forecast", buffer_nodes=7, past_threshold=0.5)
    assert SleepSettings.from_data(json.loads(json.dumps(settings.to_data()))) == settings


NODES = st.integers(0, 50)


@given(
    st.sampled_from(["buffer", "forecast", "off"]),
    NODES,
    NODES,
    NODES,
    NODES,
    NODES,
    NODES,
    st.lists(st.integers(0, 150).map(float), max_size=6),
)
def test_only_what_sleeps_wakes_and_only_what_idles_sleeps(
    name: str,
    busy: int,
    idle: int,
    booting: int,
    asleep: int,
    short: int,
    buffer_nodes: int,
    past: list[float],
) -> None:
    control = open_control(SleepSettings(name, buffer_nodes=buffer_nodes), Says(0.0, 0.0))
    moment = SleepObservation(600.0, busy + idle + booting + asleep, busy + idle, booting, busy, short)
    assert 0 <= control.wake(moment) <= asleep
    assert 0 <= control.sleep(moment, bins(*past)) <= idle
