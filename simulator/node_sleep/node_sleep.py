"""Nodes that sleep and boot as part of a replay: what a scenario says of them."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from math import isfinite
from typing import Any

from foundation.errors import BadInputError, UnknownNameError
from simulator.node_sleep.control import NodeForecaster, open_control
from simulator.node_sleep.settings import SleepSettings


@dataclass(frozen=True)
class NodeSleep:
    """How the nodes of a simulated cluster sleep, and how their boots go.

    `settings` name the control and the time of a boot. A share of `boot_failure_share` of all boots fails,
    drawn with `seed`: the node is then booted again, which takes as long once more. In each virtual cluster
    `awake_per_virtual_cluster` nodes never sleep.
    """

    settings: SleepSettings
    _: KW_ONLY
    forecaster: NodeForecaster | None = None  # for the control "forecast"
    awake_per_virtual_cluster: int = 0
    boot_failure_share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        awake = self.awake_per_virtual_cluster
        if isinstance(awake, bool) or not isinstance(awake, int) or awake < 0:
            raise BadInputError(
                f"awake_per_virtual_cluster is {awake!r}.", remedy="Use a whole number of nodes, 0 or more."
            )
        share = self.boot_failure_share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise BadInputError(
                f"boot_failure_share is {share!r}.", remedy="Use a share of boots, from 0 to below 1."
            )
        if not isfinite(self.settings.boot_s):
            raise BadInputError(f"boot_s is {self.settings.boot_s!r}.", remedy="Use 0 or more seconds.")
        open_control(self.settings, self.forecaster)

    def with_sure_boots(self) -> "NodeSleep":
        """Return the same without failures, which are not known beforehand."""
        return replace(self, boot_failure_share=0.0)

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
