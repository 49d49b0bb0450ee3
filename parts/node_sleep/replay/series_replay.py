"""A node series replayed under a control: in minutes with nodes that boot, or in bins as the artifact is."""

from collections import deque
from dataclasses import dataclass
from math import ceil

import numpy as np

from foundation.errors import BadInputError
from parts.node_sleep.replay.bin_rules import NearAndFar, artifact_decisions, bin_decisions
from parts.node_sleep.replay.control import (
    BIN_S,
    NodeForecaster,
    SleepControl,
    SleepObservation,
    needed,
    open_control,
)
from parts.node_sleep.replay.demand_window import DemandWindow
from parts.node_sleep.replay.settings import SleepSettings
from parts.node_sleep.replay.timeline import SleepTimeline


@dataclass(frozen=True)
class BootFailures:
    """A `share` (0..1) of woken nodes does not come up and sleeps again after the time of a boot."""

    share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise BadInputError(
                f"{self.share!r} of all boots cannot fail.", remedy="Use a share from 0 to below 1."
            )


def replay_minutes(
    window: DemandWindow,
    settings: SleepSettings,
    forecaster: NodeForecaster | None = None,
    *,
    failures: BootFailures = BootFailures(),
) -> SleepTimeline:
    """Replay a window step by step: nodes boot for `settings.boot_s`, and booting nodes serve nothing.

    The control is checked every `BIN_S` seconds on bins that have ended, and asked to wake whenever demand is
    above the awake nodes. It begins with the present demand and the buffer awake ("off": with all).
    """
    return _MinuteReplay(window, settings, open_control(settings, forecaster), failures).run()


class _MinuteReplay:
    def __init__(
        self, window: DemandWindow, settings: SleepSettings, control: SleepControl, failures: BootFailures
    ) -> None:
        self._window = window
        self._settings = settings
        self._control = control
        self._share = failures.share
        self._random = np.random.default_rng(failures.seed)
        first_total = int(window.total[0, 0])
        demand = ceil(window.running[0, 0])
        all_awake = settings.control == "off"
        self._awake = first_total if all_awake else min(first_total, demand + settings.buffer_nodes)
        self._boots: deque[tuple[float, int, int]] = deque()  # when over, nodes, how many of them fail
        self._booting = 0
        self._woken = np.zeros(window.running.shape, dtype=np.int64)
        self._failed = np.zeros(window.running.shape, dtype=np.int64)

    def run(self) -> SleepTimeline:
        window = self._window
        shape = window.running.shape
        awake = np.zeros(shape, dtype=np.int64)
        booting = np.zeros(shape, dtype=np.int64)
        highest, least_total = window.running.max(axis=1), window.total.min(axis=1)
        for number in range(shape[0]):
            now_s = window.start_s + number * BIN_S
            self._step(now_s, number, 0, check=True)
            awake[number, :], booting[number, :] = self._awake, self._booting
            if not self._boots and highest[number] <= self._awake <= least_total[number]:
                continue  # nothing happens before the next check
            for step in range(1, shape[1]):
                self._step(now_s + step * window.step_s, number, step, check=False)
                awake[number, step], booting[number, step] = self._awake, self._booting
        running = window.running.ravel()
        return SleepTimeline(
            start_s=window.start_s,
            step_s=window.step_s,
            running=running,
            total=window.total.ravel(),
            awake=awake.ravel(),
            booting=booting.ravel(),
            short=np.maximum(0.0, running - awake.ravel()),
            woken=self._woken.ravel(),
            failed_boots=self._failed.ravel(),
        )

    def _step(self, now_s: float, number: int, step: int, *, check: bool) -> None:
        total = int(self._window.total[number, step])
        self._failed[number, step] += self._end_boots(now_s)
        self._leave(total)
        demand = ceil(self._window.running[number, step])
        if check or demand > self._awake:
            woken = self._control.wake(self._seen(now_s, total, demand))
            self._woken[number, step] = woken
            self._boot(woken, now_s)
            self._failed[number, step] += self._end_boots(now_s)  # at once where a boot takes no time
        if check:
            busy = self._window.bins.running[: self._window.bins_before + number]
            self._awake -= self._control.sleep(self._seen(now_s, total, demand), busy)

    def _seen(self, now_s: float, total: int, demand: int) -> SleepObservation:
        busy = min(demand, self._awake)
        return SleepObservation(now_s, total, self._awake, self._booting, busy, demand - busy)

    def _boot(self, nodes: int, now_s: float) -> None:
        if nodes:
            failing = int(self._random.binomial(nodes, self._share)) if self._share else 0
            self._booting += nodes
            self._boots.append((now_s + self._settings.boot_s, nodes, failing))

    def _end_boots(self, now_s: float) -> int:
        """Make nodes usable that have booted; return how many did not come up."""
        failed = 0
        while self._boots and self._boots[0][0] <= now_s:
            _, nodes, failing = self._boots.popleft()
            self._booting -= nodes
            self._awake += nodes - failing
            failed += failing
        return failed

    def _leave(self, total: int) -> None:
        """Take nodes that are gone out: sleeping ones first, then those that boot latest, then awake ones."""
        gone = self._awake + self._booting - total
        while gone > 0 and self._boots:
            ready_s, nodes, failing = self._boots.pop()
            leaving = min(gone, nodes)
            gone -= leaving
            self._booting -= leaving
            if nodes > leaving:
                self._boots.append((ready_s, nodes - leaving, min(failing, nodes - leaving)))
        self._awake = min(self._awake, total)


def replay_bins(
    window: DemandWindow,
    settings: SleepSettings,
    forecaster: NodeForecaster | None = None,
    *,
    published_forecast: np.ndarray | None = None,
) -> SleepTimeline:
    """Replay a window by the artifact's rules (`parts.node_sleep.replay.bin_rules`): nodes wake at once.

    `published_forecast` has busy nodes a bin of the window, for "helios-artifact", which reads it as the
    artifact does. "forecast" asks the forecaster with the bins up to the present one; "buffer" asks none.
    """
    running = window.bins.running[window.bins_before :]
    total = window.bins.total[window.bins_before :]
    before = window.bins.running[: window.bins_before]
    if settings.control == "off":
        active, change = total.astype(np.int64), np.zeros(len(total), dtype=np.int64)
    else:
        if settings.control == "helios-artifact":
            if published_forecast is None:
                raise BadInputError(
                    "The control 'helios-artifact' has no forecast.", remedy="Give it the published one."
                )
            decisions = artifact_decisions(settings, running, total, published_forecast)
        else:
            asked = None if settings.control == "buffer" else _means_of(needed(forecaster), window)
            decisions = bin_decisions(settings, running, total, asked, bins_before=before)
        active, change = decisions.active, decisions.change
    lacking = np.concatenate(([0.0], np.maximum(0.0, running[1:] - active[:-1])))
    return SleepTimeline(
        start_s=window.start_s,
        step_s=float(BIN_S),
        running=running,
        total=total,
        awake=active,
        booting=np.zeros(len(active), dtype=np.int64),
        short=lacking,
        woken=np.maximum(0, change),
        failed_boots=np.zeros(len(active), dtype=np.int64),
        boots=False,
    )


def _means_of(forecaster: NodeForecaster, window: DemandWindow) -> NearAndFar:
    def near_and_far(at: int) -> tuple[float, float]:
        busy = window.bins.running[: window.bins_before + at + 1]
        forecast = forecaster.forecast(busy, window.start_s + at * BIN_S)
        return forecast.near_mean, forecast.far_mean

    return near_and_far
