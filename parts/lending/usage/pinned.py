"""Whether a forecast of inference that a release pins can be gone by."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from foundation.errors import ReleaseRefusedError
from parts.lending.usage.scorer import InferenceLoadScorer


def check_pinned(load: InferenceLoadScorer, loaning: Mapping[str, Any]) -> None:
    """Refuse a forecast without the quantile that the settings of servers on loan go by, or whose answer to a
    plain input makes no sense.
    """
    wanted, levels = loaning.get("quantile"), list(load.start.multiples)
    if loaning.get("usage") == "forecast" and wanted not in levels:
        raise ReleaseRefusedError(
            f"The forecast of inference has no quantile {wanted}, by which the settings lend servers.",
            remedy=f"Set quantile to one of {', '.join(f'{level:g}' for level in levels)}.",
        )
    usage = load.forecast(np.full(300, 0.5), 0.0)
    if not all(0 <= value <= 1 for value in (usage.mean, *usage.quantiles.values())):
        raise ReleaseRefusedError(f"The inference load model forecasts a usage of {usage.mean} on a probe.")
