"""Whether a wait model that a release pins can be gone by."""

import math
from collections.abc import Mapping
from typing import Any

from foundation.errors import ReleaseRefusedError
from parts.waits.model.queue_moment import queue_of_jobs
from parts.waits.model.scorer import WaitScorer


def check_pinned(waits: WaitScorer, settings: Mapping[str, Any]) -> None:
    """Refuse a model whose answer to a plain input makes no sense."""
    queue = queue_of_jobs(0.0, [{"submit_s": -60.0, "cpus": 1.0, "limit_s": 3_600.0}], [])
    p50_s, p90_s = waits.forecast(queue, ["probe"])[0].tolist()
    if not 0 <= p50_s <= p90_s < math.inf:
        raise ReleaseRefusedError(f"The wait model forecasts {p50_s} s and {p90_s} s on a probe.")
