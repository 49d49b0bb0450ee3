"""How much sharing is wanted at the moment (Lucid section 3.3, dynamic strategy)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from foundation.checked_settings import CheckedSettings
from simulator.snapshot import Snapshot
from simulator.workload.forecast import Throughput, ThroughputForecast

# Upper bound on the sum of two sharing scores (G_SS) by packing strategy (section 3.3).
SHARING_CAPACITY: Mapping[str, int | None] = {"default": 2, "apathetic": 1, "none": None}


@dataclass(frozen=True)
class StrategySettings(CheckedSettings):
    """How much jobs share GPUs.

    - `sharing`: "default" (G_SS 2), "apathetic" (G_SS 1) or "none"; with a throughput forecast, the most.
    - `dynamic_sharing`: whether a forecast may lower it. The load is the GPUs that jobs ask for in an hour,
      with those that wait already, as a share of the cluster's GPUs.
    - `apathetic_below`, `none_below`: at a load below, and not predicted to rise, the strategy is at most
      apathetic, or none ("relatively low (customizable) and not likely to increase").
    """

    sharing: Literal["default", "apathetic", "none"] = "default"
    dynamic_sharing: bool = True
    apathetic_below: float = 0.1
    none_below: float = 0.02


class SharingStrategy:
    """Chooses the GPU sharing capacity G_SS."""

    def __init__(self, settings: StrategySettings) -> None:
        self.settings = settings
        self._most = SHARING_CAPACITY[settings.sharing]
        self._known: tuple[ThroughputForecast, float, Throughput] | None = None  # forecast, its bin, the load

    def capacity(self, snapshot: Snapshot) -> int | None:
        """Return the greatest sum of two sharing scores that may share now; None: no jobs share."""
        most = self._most
        if most is None or snapshot.forecast is None or not self.settings.dynamic_sharing:
            return most
        settings = self.settings
        gpus = waiting = 0
        for pool in snapshot.pools.values():
            gpus += pool.total_gpus
            waiting += pool.queue.gpus
        gpus = max(1, gpus)
        if waiting >= gpus * max(settings.apathetic_below, settings.none_below):
            return most  # whatever the forecast says
        throughput = self._throughput(snapshot.forecast, snapshot.now_s)
        if throughput.predicted_gpus_per_hour > throughput.gpus_per_hour:
            return most
        load = (throughput.gpus_per_hour + waiting) / gpus
        if load < settings.none_below:
            return None
        return min(most, 1) if load < settings.apathetic_below else most

    def _throughput(self, forecast: ThroughputForecast, now_s: float) -> Throughput:
        """Look the load up once a bin."""
        bin_ = now_s // forecast.bin_s
        looked_up = self._known
        if looked_up is None or looked_up[0] is not forecast or looked_up[1] != bin_:
            looked_up = self._known = (forecast, bin_, forecast.at(now_s))
        return looked_up[2]
