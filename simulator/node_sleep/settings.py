"""What an operator sets of nodes that sleep."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any

from foundation.errors import BadInputError, UnknownNameError

MOST = 10_000_000  # nodes or bins: more than any cluster has
CONTROLS = ("forecast", "buffer", "helios-artifact", "off")


@dataclass(frozen=True)
class SleepSettings:
    """How nodes sleep and wake; letters in brackets are those of Helios, section 4.3.

    `control`: "buffer" keeps `buffer_nodes` beyond what is busy; "forecast" also asks a forecast before nodes
    sleep; "helios-artifact" decides as the paper's artifact does (replays of a series only); "off" keeps all
    awake.
    """

    control: str = "buffer"
    buffer_nodes: int = 20  # [sigma] idle nodes that are left awake, and woken beyond what is short
    peak_bins: int = 1  # newest bins whose highest demand the buffer is kept beyond (Helios: 1)
    past_bins: int = 2  # [h] bins before the newest whose mean is compared with it
    near_bins: int = 30  # [f] bins that the forecast looks ahead
    past_threshold: float = 0.1  # [xi_H] nodes by which the newest bin lies below the past ones
    forecast_threshold: float = 0.0  # [xi_P] nodes by which the forecast lies below the newest bin
    least_nodes: int = 1  # [d] fewer than these are not put to sleep
    keep_bins: int = 10  # bins after a wake-up in which no node is put to sleep
    min_awake: int = 0  # nodes that never sleep
    boot_s: float = 300.0  # seconds from waking a node until it is usable

    def __post_init__(self) -> None:
        if self.control not in CONTROLS:
            raise UnknownNameError("control of sleeping nodes", self.control, CONTROLS)
        for name, least in (
            ("buffer_nodes", 0),
            ("peak_bins", 1),
            ("past_bins", 1),
            ("near_bins", 1),
            ("least_nodes", 1),
            ("keep_bins", 0),
            ("min_awake", 0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
                raise BadInputError(
                    f"{name} is {value!r}.", remedy=f"Use a whole number from {least} to {MOST:,}."
                )
        for name in ("past_threshold", "forecast_threshold", "boot_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
                raise BadInputError(f"{name} is {value!r}.", remedy="Use a finite number.")
        if self.boot_s < 0:
            raise BadInputError(f"boot_s is {self.boot_s!r}.", remedy="Use 0 or more seconds.")

    def to_data(self) -> dict[str, Any]:
        """Return the settings as a flat, JSON-able table."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "SleepSettings":
        """Return the settings of such a table; what it lacks stays as it is by default.

        Raises UnknownNameError for a name that is no setting, BadInputError for a value that cannot be used.
        """
        names = [field.name for field in fields(cls)]
        for name in data:
            if name not in names:
                raise UnknownNameError("setting of sleeping nodes", name, names)
        return cls(**data)
