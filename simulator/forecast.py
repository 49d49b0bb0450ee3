"""A throughput forecast as values: what a policy may know of the load to come.

The forecast (of lucid_models' Throughput Predict Model, or a naive one) is made causally; here it
is looked up by time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from foundation.errors import BadInputError


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
