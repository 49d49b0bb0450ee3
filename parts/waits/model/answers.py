"""What a wait model says of each job that waits at the newest moment of a queue's log."""

from dataclasses import dataclass

import numpy as np

from cluster_logs.queue_log import QueueLog
from parts.waits.model.queue_moment import queue_at
from parts.waits.model.scorer import WaitScorer


@dataclass(frozen=True)
class WaitForecast:
    """Of one waiting job: how long it has waited, and goes on waiting (P50, P90), in s."""

    job_id: str
    partition: str
    waited_s: float
    p50_s: float
    p90_s: float


def waits_now(scorer: WaitScorer, log: QueueLog) -> list[WaitForecast]:
    """Forecasts for the newest snapshot, the job that starts first by P50 first.

    What started lately is read from the same log: without it the forecast knows nothing of the pace.
    """
    queue = queue_at(log, float(log.moments_s[-1]))
    waiting = queue.waiting
    partitions = [log.partition_name(int(code)) for code in waiting["partition"]]
    forecast_s = scorer.forecast(queue, partitions)
    return [
        WaitForecast(
            str(log.jobs["job_id"][waiting["job"][row]]),
            partitions[row],
            float(queue.moment_s - waiting["submit_s"][row]),
            *forecast_s[row].tolist(),
        )
        for row in np.argsort(forecast_s[:, 0], kind="stable").tolist()
    ]
