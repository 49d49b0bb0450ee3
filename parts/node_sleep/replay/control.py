"""The decision which nodes sleep at one moment, for a replayed series, the engine and a live cluster.

A cluster keeps a list of its finished bins of `BIN_S` seconds (the highest number of busy nodes of each, gaps
held) and asks a control: `wake` when jobs are short of nodes and at every check, `sleep` at every check, each
`BIN_S` seconds. A control sees the past and the present alone. Rules: Helios (SC '21), section 4.3. What the
artifact does otherwise is done in `bin_rules.py` alone: it acts on a bin at its start, reads a forecast made
of later bins, and its nodes wake at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from parts.node_sleep.replay.settings import SleepSettings


def has_fallen(settings: SleepSettings, busy: NDArray[np.float64]) -> bool:
    """Whether the newest bin lies below the mean of the `past_bins` before it by `past_threshold`."""
    past = busy[-1 - settings.past_bins : -1]
    return len(busy) > settings.past_bins and float(past.mean()) - float(busy[-1]) >= settings.past_threshold


def stays_low(settings: SleepSettings, newest: float, near_mean: float, far_mean: float) -> bool:
    """Whether the next `near_bins` bins lie below the newest by `forecast_threshold`, and no rise follows."""
    return newest - near_mean >= settings.forecast_threshold and near_mean >= far_mean


BIN_S = 600


@dataclass(frozen=True, slots=True)
class DemandForecast:
    """What a forecaster says at the end of the newest finished bin, in nodes.

    `near_mean` is the mean of busy nodes over the next `near_bins` bins, `far_mean` over the next twice as
    many; `near_peak` has, by quantile (0.5, 0.9, ...), that quantile of the highest of the next `near_bins`.
    """

    near_mean: float
    far_mean: float
    near_peak: Mapping[float, float]


class NodeForecast(Protocol):
    """Whatever has the values of a `DemandForecast`: models have their own."""

    @property
    def near_mean(self) -> float:
        """Return the mean of the next bins."""
        ...

    @property
    def far_mean(self) -> float:
        """Return the mean of the next twice as many."""
        ...

    @property
    def near_peak(self) -> Mapping[float, float]:
        """Return quantiles of the highest of the next bins."""
        ...


class NodeForecaster(Protocol):
    """A forecast of busy nodes, made of finished bins."""

    def forecast(self, busy: NDArray[np.float64], last_bin_start_s: float) -> NodeForecast:
        """Return what follows `busy`: one value a finished bin, the highest number of busy nodes in it.

        Shape (bins,), oldest first, gaps held. The newest bin began at `last_bin_start_s` (s since 1970).
        """
        ...


@dataclass(frozen=True, slots=True)
class SleepObservation:
    """A cluster's nodes at one moment.

    `total` exist and are neither down nor drained; `awake` of them are usable now (neither asleep nor
    booting), `booting` will be; `busy` run a job. `short` is what waiting jobs need beyond the idle awake
    nodes, whether nodes boot for them or not.
    """

    now_s: float
    total: int
    awake: int
    booting: int
    busy: int
    short: int

    @property
    def asleep(self) -> int:
        """Return the nodes that sleep."""
        return max(0, self.total - self.awake - self.booting)


class SleepControl(Protocol):
    """Which nodes sleep: numbers alone; its caller chooses the nodes."""

    def wake(self, seen: SleepObservation) -> int:
        """Return how many sleeping nodes to wake now, at most those asleep.

        Asked before `sleep` at every check, and whenever jobs are short of nodes.
        """
        ...

    def sleep(self, seen: SleepObservation, busy: NDArray[np.float64]) -> int:
        """Return how many nodes to put to sleep now, at most the idle awake ones; asked every `BIN_S` s.

        `busy` as for `NodeForecaster.forecast`; its newest bin has ended by `seen.now_s`.
        """
        ...


class AlwaysAwake:
    """Control "off": no node sleeps, and those that do are woken."""

    def wake(self, seen: SleepObservation) -> int:
        """Wake every node."""
        return seen.asleep

    def sleep(self, seen: SleepObservation, busy: NDArray[np.float64]) -> int:
        """Keep all awake."""
        return 0


class BufferControl:
    """Control "buffer": nodes sleep down to a fixed buffer beyond the highest of the newest `peak_bins` bins.

    Nodes are woken when jobs are short of more than boots already: what is short and the buffer, at once. For
    `keep_bins` bins from then on none is put to sleep. `quiet_until_s` is the end of that time: hand it to
    `open_control` to go on after a restart.
    """

    def __init__(self, settings: SleepSettings, *, quiet_until_s: float = float("-inf")) -> None:
        self._settings = settings
        self.quiet_until_s = quiet_until_s

    def wake(self, seen: SleepObservation) -> int:
        """Wake what is short and the buffer; nothing while what boots is enough."""
        settings = self._settings
        nodes = 0
        if seen.short > seen.booting:
            nodes = seen.short - seen.booting + settings.buffer_nodes
            self.quiet_until_s = seen.now_s + settings.keep_bins * BIN_S
        nodes = max(nodes, settings.min_awake - seen.awake - seen.booting)
        return max(0, min(nodes, seen.asleep))

    def sleep(self, seen: SleepObservation, busy: NDArray[np.float64]) -> int:
        """Sleep down to the buffer beyond the newest bins and the present, if that is worth it."""
        settings = self._settings
        if (
            not len(busy)
            or seen.short > 0
            or seen.now_s < self.quiet_until_s
            or not self._may_shrink(seen, busy)
        ):
            return 0
        highest = max(float(busy[-settings.peak_bins :].max()), seen.busy)
        stay_awake = max(ceil(highest) + settings.buffer_nodes, settings.min_awake)
        nodes = min(seen.awake + seen.booting - stay_awake, seen.awake - seen.busy)
        return nodes if nodes >= settings.least_nodes else 0

    def _may_shrink(self, seen: SleepObservation, busy: NDArray[np.float64]) -> bool:
        """Return whether demand is low enough for nodes to sleep: a buffer does not ask."""
        return True


class ForecastControl(BufferControl):
    """Control "forecast": Helios' rule, on finished bins and a forecast that is made of them.

    Nodes sleep only if demand has fallen, stays low and does not rise again (`has_fallen`, `stays_low`).
    """

    def __init__(
        self, settings: SleepSettings, forecaster: NodeForecaster, *, quiet_until_s: float = float("-inf")
    ) -> None:
        super().__init__(settings, quiet_until_s=quiet_until_s)
        self._forecaster = forecaster

    def _may_shrink(self, seen: SleepObservation, busy: NDArray[np.float64]) -> bool:
        if not has_fallen(self._settings, busy):
            return False
        forecast = self._forecaster.forecast(busy, (seen.now_s // BIN_S - 1) * BIN_S)
        return stays_low(self._settings, float(busy[-1]), forecast.near_mean, forecast.far_mean)


def open_control(
    settings: SleepSettings,
    forecaster: NodeForecaster | None = None,
    *,
    quiet_until_s: float = float("-inf"),
) -> SleepControl:
    """Return the control that the settings name; `quiet_until_s` is that of a control before a restart.

    Raises BadInputError for "forecast" without a forecaster, and for "helios-artifact", which reads bins that
    have not ended: it can only replay a series.
    """
    if settings.control == "off":
        return AlwaysAwake()
    if settings.control == "buffer":
        return BufferControl(settings, quiet_until_s=quiet_until_s)
    if settings.control == "helios-artifact":
        raise BadInputError(
            "The control 'helios-artifact' reads the future.",
            remedy="Replay a series with it, or use 'forecast' or 'buffer'.",
        )
    return ForecastControl(settings, needed(forecaster), quiet_until_s=quiet_until_s)


def needed(forecaster: NodeForecaster | None) -> NodeForecaster:
    """Return the forecaster of the control "forecast"; raises BadInputError where there is none."""
    if forecaster is None:
        raise BadInputError(
            "The control 'forecast' has no forecaster.", remedy="Train one, or use the control 'buffer'."
        )
    return forecaster
