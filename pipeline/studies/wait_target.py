"""What a plan keeps under a limit: the mean or a percentile of jobs' waits."""

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError, check_names
from simulator.gate.bootstrap import block_numbers, paired_mean_change, paired_quantile_change
from simulator.results.metrics import mean, percentile

Floats = NDArray[np.float64]

# Percentile of each metric; None: the mean.
METRICS: dict[str, float | None] = {"mean": None, "p50": 50.0, "p95": 95.0, "p99": 99.0}


@dataclass(frozen=True)
class WaitTarget:
    """Jobs' waits (`queuing_delay_s`: all pending time) are at most `limit_s` seconds by this metric."""

    metric: str = "p95"
    limit_s: float = 600.0

    def __post_init__(self) -> None:
        check_names("metric of waits", [self.metric], METRICS)
        if isinstance(self.limit_s, bool) or not isfinite(self.limit_s) or self.limit_s < 0:
            raise BadInputError(f"The limit of waits is {self.limit_s!r} s.", remedy="Use 0 s or more.")

    @property
    def column(self) -> str:
        """Name the metric in tables, as `p95_wait_s`."""
        return f"{self.metric}_wait_s"

    @property
    def words(self) -> str:
        """Name the metric in a sentence."""
        return "mean wait" if self.metric == "mean" else f"{self.metric.upper()} wait"

    def of(self, waits_s: Floats) -> float:
        """Return the metric of waits (s), shape (jobs,), as summaries of simulations have it."""
        return metric_of(self.metric, waits_s)

    def holds(self, wait_s: float) -> bool:
        """Whether a metric's value keeps the limit."""
        return wait_s <= self.limit_s


def metric_of(metric: str, waits_s: Floats) -> float:
    """Return a metric of waits (s), shape (jobs,); 0 of no jobs."""
    percent = METRICS[metric]
    return mean(waits_s) if percent is None else percentile(waits_s, percent)


@dataclass(frozen=True)
class Resampling:
    """How intervals are made: blocks of `block_days` days of one virtual cluster are drawn again and again.

    One `seed`, so that all replays of the same jobs are judged by the same draws (common random numbers).
    """

    block_days: float = 1.0
    confidence_pct: float = 95.0
    resamples: int = 1_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not isfinite(self.block_days) or self.block_days <= 0:
            raise BadInputError(f"Blocks have {self.block_days!r} days.", remedy="Use 1 (days) or 7 (weeks).")

    def blocks(self, submit_time_s: Floats, virtual_clusters: NDArray[np.object_]) -> NDArray[np.int64]:
        """Number the blocks that jobs belong to; shape (jobs,)."""
        return block_numbers(submit_time_s / self.block_days, virtual_clusters)


@dataclass(frozen=True)
class WaitInterval:
    """Bounds of a metric, or of its change, in seconds; None where there are fewer than two blocks.

    `reliable`: there are at least as many blocks as the gate asks for.
    """

    low: float | None
    high: float | None
    reliable: bool


def interval_of_change(
    metric: str, waits_s: Floats, reference_s: Floats, blocks: NDArray[np.int64], resampling: Resampling
) -> WaitInterval:
    """Return the interval of how a metric differs between two replays of the same jobs, job by job.

    Against zeros it is the interval of the metric itself. It always holds the difference that was measured:
    percentiles of resamples are taken without interpolation (`simulator.gate.bootstrap`), those of summaries
    with.
    """
    if not len(waits_s):
        return WaitInterval(None, None, reliable=False)
    percent = METRICS[metric]
    settings = {
        "confidence_pct": resampling.confidence_pct,
        "resamples": resampling.resamples,
        "seed": resampling.seed,
    }
    if percent is None:
        interval = paired_mean_change(waits_s, reference_s, blocks, **settings).difference  # type: ignore[arg-type]
    else:
        interval = paired_quantile_change(waits_s, reference_s, blocks, percent / 100, **settings).difference  # type: ignore[arg-type]
    if interval.low is None or interval.high is None:
        return WaitInterval(None, None, reliable=False)
    point = metric_of(metric, waits_s) - metric_of(metric, reference_s)
    return WaitInterval(min(interval.low, point), max(interval.high, point), interval.reliable)


def interval_of(
    metric: str, waits_s: Floats, blocks: NDArray[np.int64], resampling: Resampling
) -> WaitInterval:
    """Return the interval of a metric of waits (s), shape (jobs,)."""
    return interval_of_change(metric, waits_s, np.zeros_like(waits_s), blocks, resampling)
