"""Whether a forecast of nodes that a release pins can be gone by."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from foundation.errors import ReleaseRefusedError
from parts.node_sleep.demand.scorer import NodeDemandScorer


def check_pinned(nodes: NodeDemandScorer, node_sleep: Mapping[str, Any]) -> None:
    """Refuse a forecast that looks ahead another time than the control's settings say (Helios' f), or whose
    answer to a plain input makes no sense.
    """
    wanted, near_bins = node_sleep.get("near_bins"), nodes.features.near_bins
    if node_sleep.get("control") == "forecast" and wanted != near_bins:
        raise ReleaseRefusedError(
            f"The forecast of nodes looks {near_bins} bins ahead; the settings of sleeping nodes say "
            f"near_bins = {wanted}.",
            remedy=f"Set near_bins to {near_bins}, or train with it: lucid train nodes --near-bins {wanted}.",
        )
    ahead = nodes.forecast(np.ones(300), 0.0)
    if not all(0 <= value < math.inf for value in (ahead.near_mean, ahead.far_mean)):
        raise ReleaseRefusedError(f"The node demand model forecasts {ahead.near_mean} busy nodes on a probe.")
