"""How the nodes of a simulated cluster sleep, as data."""

from dataclasses import KW_ONLY, dataclass
from math import isfinite

from foundation.errors import BadInputError
from parts.node_sleep.replay.control import NodeForecaster, open_control
from parts.node_sleep.replay.settings import SleepSettings


@dataclass(frozen=True)
class ReplayedSleep:
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
