"""A throughput forecast as values: what a policy may know of the load to come.

The forecast (of lucid_models' Throughput Predict Model, or a naive one) is made causally; here it
is looked up by time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from simulator.workload.workload import Workload

DAY_S = 86_400.0
HOUR_S = 3_600.0


class Throughput(NamedTuple):
    """The load now and as predicted: job submissions and the GPUs that they ask for, per hour."""

    jobs_per_hour: float
    predicted_jobs_per_hour: float
    gpus_per_hour: float
    predicted_gpus_per_hour: float


@dataclass(frozen=True)
class ThroughputForecast:
    """Bins of `bin_s` seconds from second 0 on; each holds what was known when the bin began.

    All sequences are of equal length; a moment after the last bin is answered by the last bin.
    """

    bin_s: float
    jobs_per_hour: Sequence[float]
    predicted_jobs_per_hour: Sequence[float]
    gpus_per_hour: Sequence[float]
    predicted_gpus_per_hour: Sequence[float]

    def __post_init__(self) -> None:
        if not self.bin_s > 0:
            raise BadInputError(f"bin_s is {self.bin_s!r}.", remedy="Use more than 0 s.")
        columns = (
            self.jobs_per_hour,
            self.predicted_jobs_per_hour,
            self.gpus_per_hour,
            self.predicted_gpus_per_hour,
        )
        lengths = {len(column) for column in columns}
        if len(lengths) != 1 or not lengths.pop():
            raise BadInputError(
                f"The forecast's columns hold {[len(column) for column in columns]} bins.",
                remedy="Give each the same number of bins, and at least one.",
            )

    def at(self, now_s: float) -> Throughput:
        """Return the load as known at a moment."""
        bin_ = min(max(0, int(now_s // self.bin_s)), len(self.jobs_per_hour) - 1)
        return Throughput(
            self.jobs_per_hour[bin_],
            self.predicted_jobs_per_hour[bin_],
            self.gpus_per_hour[bin_],
            self.predicted_gpus_per_hour[bin_],
        )


def naive_forecast(workload: Workload, *, bin_s: float = HOUR_S, days: int = 7) -> ThroughputForecast:
    """Return a forecast without a trained model, of the workload's submissions in bins of `bin_s` seconds.

    Causal: a bin's values are made of the submissions before it began.

    The load of a bin is that of the bin before it, in jobs and in the GPUs that they ask for, per hour. What
    is predicted is the mean of that and of the same time of day on up to `days` days before, where there were
    any. Raises BadInputError for bins that do not fill a day evenly.
    """
    a_day = round(DAY_S / bin_s) if bin_s > 0 else 0
    if not a_day or abs(a_day * bin_s - DAY_S) > 1e-6 or days < 1:
        raise BadInputError(
            f"bin_s is {bin_s!r} and days is {days!r}.",
            remedy="Use bins that divide a day, and a day or more.",
        )
    submitted = workload.columns.submit_time_s
    gpus = workload.columns.gpus.astype(np.float64)
    bins = int(submitted[-1] // bin_s) + 1 + a_day if len(submitted) else 1
    at = (submitted // bin_s).astype(np.int64)
    per_hour = HOUR_S / bin_s
    jobs_now, jobs_next = _known_before(_counts(at, None, bins) * per_hour, a_day, days)
    gpus_now, gpus_next = _known_before(_counts(at, gpus, bins) * per_hour, a_day, days)
    return ThroughputForecast(
        bin_s, jobs_now.tolist(), jobs_next.tolist(), gpus_now.tolist(), gpus_next.tolist()
    )


def _counts(bins: NDArray[np.int64], weights: NDArray[np.float64] | None, length: int) -> NDArray[np.float64]:
    return np.bincount(bins, weights=weights, minlength=length).astype(np.float64)


def _known_before(
    series: NDArray[np.float64], a_day: int, days: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each bin's load as known at its start, and the prediction for it."""
    last = np.concatenate(([0.0], series[:-1]))
    total = np.zeros_like(series)
    count = np.zeros_like(series)
    for day in range(1, days + 1):
        lag = day * a_day
        if lag >= len(series):
            break
        total[lag:] += series[:-lag]
        count[lag:] += 1
    seasonal = np.divide(total, count, out=last.copy(), where=count > 0)
    return last, (last + seasonal) / 2
