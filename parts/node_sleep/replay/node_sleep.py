"""Nodes that sleep and boot as part of a replay: what a scenario says of them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from foundation.errors import UnknownNameError
from parts.node_sleep.replay.control import NodeForecaster
from parts.node_sleep.replay.fleet import KEY, FleetMemory, ReplayedSleep, SleepingFleet
from parts.node_sleep.replay.settings import SleepSettings
from parts.node_sleep.replay.virtual_cluster_nodes import VirtualClusterNodes
from simulator.engine.node_inventory import cpu_pool
from simulator.results.result import SimulationResult
from simulator.scenario.companion import Beginning, Companion


@dataclass(frozen=True)
class NodeSleep(ReplayedSleep, Companion):
    """Nodes that sleep beside any policy, with the fields of `ReplayedSleep`."""

    key: ClassVar[str] = KEY
    noun: ClassVar[str] = "Sleeping nodes"
    wakes: ClassVar[bool] = True
    is_compared: ClassVar[bool] = True

    def attach(self, beginning: Beginning) -> SleepingFleet:
        """Return the fleet of a simulation's virtual clusters."""
        elastic = any(
            job.elastic is not None and (job.job.workers is None or job.job.workers.elastic)
            for job in beginning.jobs
        )
        lender = None if beginning.lender is None else beginning.lender.name
        pools = beginning.pools
        clusters = [
            VirtualClusterNodes(name, pools[name], pools.get(cpu_pool(name)), elastic=elastic, lender=lender)
            for name in beginning.virtual_clusters
        ]
        memory = FleetMemory(beginning.clock_s) if beginning.memory is None else beginning.memory
        return SleepingFleet(
            self, clusters, beginning.agenda, beginning.now_s, memory, beginning.counted_from_s or 0.0
        )

    def known_ahead(self) -> "NodeSleep":
        """Return the same without failures of boots."""
        return replace(self, boot_failure_share=0.0)

    @property
    def acts(self) -> bool:
        """Whether any node may sleep."""
        return self.settings.control != "off"

    @property
    def is_random(self) -> bool:
        """Whether boots fail, which is drawn."""
        return self.boot_failure_share > 0

    def added(self, result: SimulationResult, without: SimulationResult) -> Mapping[str, Any]:
        """Return the queuing that sleep adds (`parts.node_sleep.replay.node_sleep`)."""
        return added_queuing(result, without)

    @classmethod
    def from_data(
        cls, data: Mapping[str, Any], *, forecaster: NodeForecaster | None = None, seed: int = 0
    ) -> "NodeSleep":
        """Return what a flat table of settings says: those of `SleepSettings`, and the two of its own.

        Raises UnknownNameError for a name that is no setting, BadInputError for a value that cannot be used.
        """
        own = {name: data[name] for name in OWN_SETTINGS if name in data}
        others = {name: value for name, value in data.items() if name not in OWN_SETTINGS}
        for name in others:
            if name not in SETTING_NAMES:
                raise UnknownNameError("setting of sleeping nodes", name, SETTING_NAMES)
        return cls(SleepSettings.from_data(others), forecaster=forecaster, seed=seed, **own)


OWN_SETTINGS = ("awake_per_virtual_cluster", "boot_failure_share")
SETTING_NAMES = (*(field.name for field in fields(SleepSettings)), *OWN_SETTINGS)


def added_queuing(asleep: SimulationResult, awake: SimulationResult) -> dict[str, float]:
    """Compare two replays of the same jobs under the same policy, job by job.

    `added_queuing_delay_s` is the mean difference of queuing delays; boots that delay some jobs may let
    others go first, so one job's may be below zero. `later_jobs` waited for longer than with all nodes awake,
    and `latest_queuing_delay_s` is the most that a job waited longer.
    """
    added_s = asleep.counted["queuing_delay_s"].to_numpy() - awake.counted["queuing_delay_s"].to_numpy()
    return {
        "added_queuing_delay_s": float(np.mean(added_s)) if len(added_s) else 0.0,
        "later_jobs": int((added_s > ROUNDING_S).sum()),
        "latest_queuing_delay_s": float(np.max(added_s, initial=0.0)),
    }


ROUNDING_S = 1e-6  # differences of sums of times
