"""What an operator sets of nodes that sleep."""

from dataclasses import dataclass
from typing import Annotated

from foundation.checked_settings import Between, CheckedSettings, OneOf

MOST = 10_000_000  # nodes or bins: more than any cluster has
Nodes = Annotated[int, Between(0, MOST)]
Bins = Annotated[int, Between(1, MOST)]
Threshold = Annotated[float, Between(-MOST, MOST)]  # nodes
CONTROLS = ("forecast", "buffer", "helios-artifact", "off")


@dataclass(frozen=True)
class SleepSettings(CheckedSettings):
    """How nodes sleep and wake; letters in brackets are those of Helios, section 4.3.

    - `control`: "buffer" keeps `buffer_nodes` beyond what is busy; "forecast" also asks a forecast before
      nodes sleep; "helios-artifact" decides as the paper's artifact does (replays of a series only); "off"
      keeps all awake.
    - `buffer_nodes`: idle nodes that are left awake, and woken beyond what is short [sigma].
    - `peak_bins`: the buffer is kept beyond the highest demand of so many newest bins of 10 minutes.
    - `past_bins`: the newest bin is compared with the mean of so many before it [h].
    - `near_bins`: bins that the forecast looks ahead [f].
    - `past_threshold`: nodes by which the newest bin lies below the past ones [xi_H].
    - `forecast_threshold`: nodes by which the forecast lies below the newest bin [xi_P].
    - `least_nodes`: fewer than these are not put to sleep [d].
    - `keep_bins`: bins after a wake-up in which no node is put to sleep.
    - `min_awake`: nodes that never sleep.
    - `boot_s`: seconds from waking a node until it is usable.
    """

    noun = "setting of sleeping nodes"

    control: Annotated[str, OneOf("control of sleeping nodes", CONTROLS)] = "buffer"
    buffer_nodes: Nodes = 20
    peak_bins: Bins = 1
    past_bins: Bins = 2
    near_bins: Bins = 30
    past_threshold: Threshold = 0.1
    forecast_threshold: Threshold = 0.0
    least_nodes: Annotated[int, Between(1, MOST)] = 1
    keep_bins: Annotated[int, Between(0, MOST)] = 10
    min_awake: Nodes = 0
    boot_s: Annotated[float, Between(0)] = 300.0


def _helios(buffer_nodes: int, past_bins: int, past_threshold: float, least_nodes: int) -> SleepSettings:
    return SleepSettings(
        "helios-artifact",
        buffer_nodes=buffer_nodes,
        past_bins=past_bins,
        near_bins=18,
        past_threshold=past_threshold,
        forecast_threshold=1.0,
        least_nodes=least_nodes,
        keep_bins=12,
    )


# The settings that Helios' artifact has for each cluster (SC '21, section 4.3; values of its notebook).
PUBLISHED_SETTINGS = {
    "venus": _helios(5, 3, 0.5, 2),
    "earth": _helios(5, 6, 1.0, 5),
    "saturn": _helios(5, 6, 1.0, 1),
    "uranus": _helios(7, 3, 1.0, 1),
    "philly": SleepSettings("helios-artifact"),
}
