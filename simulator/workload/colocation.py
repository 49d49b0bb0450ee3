"""How fast two jobs run when they share a set of GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Protocol

from foundation.errors import BadInputError
from simulator.workload.job import JobProfile

if TYPE_CHECKING:
    import pandas as pd

PAIR_COLUMNS = ("job_type_1", "speed_1", "job_type_2", "speed_2")

# The fall-back's figures: slowdown per point of summed GPU utilisation above what there is, and its floor.
SLOWDOWN_PER_PCT = 0.005
SLOWEST = 0.5


class ColocationModel(Protocol):
    """Speeds of two jobs that share their GPUs, each relative to running alone."""

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return both speeds; symmetric in its arguments."""


@dataclass(frozen=True)
class BelievedPairs:
    """What a policy may believe of pairs, whatever the truth is: predicted `speeds`, and the mean of the two
    from which on jobs are to share.
    """

    speeds: ColocationModel
    mean_speed_min: float


class SummedUtilisation:
    """The fall-back where nothing was measured: what the sum of both GPU utilisations says.

    Full speed up to a sum of 100 %, then half a percent slower for each point above it, and never under
    half: about what the published pairs show (Lucid, Figure 2 a). A job without a profile is taken to want
    everything.
    """

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return both speeds, equal, in [0.5, 1]."""
        wanted = (100.0 if first is None else first.gpu_util_pct) + (
            100.0 if second is None else second.gpu_util_pct
        )
        speed = 1.0 if wanted <= 100.0 else max(SLOWEST, 1.0 - SLOWDOWN_PER_PCT * (wanted - 100.0))
        return speed, speed


class MeasuredPairs:
    """Speeds measured for pairs of job types; pairs that were not measured go to the fall-back model.

    A pair measured more than once (in either order) has the mean of its measurements. No job is taken to run
    faster beside another than alone: where a measurement says so, that is noise, or an exclusive run that
    waited for something else. `speed_max` None takes measurements as they are.
    """

    def __init__(
        self,
        pairs: "pd.DataFrame",
        fall_back: ColocationModel | None = None,
        *,
        speed_max: float | None = 1.0,
    ) -> None:
        missing = [column for column in PAIR_COLUMNS if column not in pairs.columns]
        if missing:
            raise BadInputError(f"The pair table lacks {', '.join(missing)}.")
        most = inf if speed_max is None else speed_max
        sums: dict[tuple[str, str], list[float]] = {}
        for type_1, speed_1, type_2, speed_2 in pairs[list(PAIR_COLUMNS)].itertuples(index=False):
            for key, mine, theirs in (
                ((type_1, type_2), speed_1, speed_2),
                ((type_2, type_1), speed_2, speed_1),
            ):
                if not (0 < mine < float("inf")):
                    raise BadInputError(f"The pair {key} has the speed {mine!r}.", remedy="Use a number > 0.")
                total = sums.setdefault((str(key[0]), str(key[1])), [0.0, 0.0, 0.0])
                total[0] += float(mine)
                total[1] += float(theirs)
                total[2] += 1
        self._speeds: Mapping[tuple[str, str], tuple[float, float]] = {
            key: (min(most, total[0] / total[2]), min(most, total[1] / total[2]))
            for key, total in sums.items()
        }
        self._fall_back = fall_back or SummedUtilisation()

    def __len__(self) -> int:
        return len(self._speeds)

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return the measured speeds, or the fall-back's."""
        if first is not None and second is not None and first.job_type and second.job_type:
            measured = self._speeds.get((first.job_type, second.job_type))
            if measured is not None:
                return measured
        return self._fall_back.speeds(first, second)
