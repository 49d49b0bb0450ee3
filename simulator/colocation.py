"""How fast two jobs run when they share a set of GPUs."""

from collections.abc import Mapping
from typing import Protocol

import pandas as pd

from cluster_logs.errors import BadInputError
from simulator.workload import JobProfile

PAIR_COLUMNS = ("job_type_1", "speed_1", "job_type_2", "speed_2")

# Slowest speed that the fall-back model returns: two jobs that each want the whole GPU still share it.
SLOWEST = 0.25


class ColocationModel(Protocol):
    """Speeds of two jobs that share their GPUs, each relative to running alone."""

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return both speeds; symmetric in its arguments."""


class UtilisationModel:
    """The fall-back: a GPU, and its memory bandwidth, are shared in proportion to demand.

    If two jobs want 60 % and 70 % of a GPU's time, they want 130 % of what there is, and each runs at
    100/130 of its speed; the same holds for memory bandwidth, and the tighter of the two decides. A job
    without a profile is taken to want everything.
    """

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return both speeds, equal, in [0.25, 1]."""
        gpu = sum(100.0 if profile is None else profile.gpu_util_pct for profile in (first, second))
        memory = sum(100.0 if profile is None else profile.gpu_mem_util_pct for profile in (first, second))
        speed = max(SLOWEST, 100.0 / max(100.0, gpu, memory))
        return speed, speed


class MeasuredPairs:
    """Speeds measured for pairs of job types; pairs that nobody measured go to the fall-back model.

    A pair measured more than once (in either order) has the mean of its measurements. Speeds may exceed 1
    where the measurement did.
    """

    def __init__(self, pairs: pd.DataFrame, fall_back: ColocationModel | None = None) -> None:
        missing = [column for column in PAIR_COLUMNS if column not in pairs.columns]
        if missing:
            raise BadInputError(f"The pair table lacks {', '.join(missing)}.")
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
            key: (total[0] / total[2], total[1] / total[2]) for key, total in sums.items()
        }
        self._fall_back = fall_back or UtilisationModel()

    def __len__(self) -> int:
        return len(self._speeds)

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return the measured speeds, or the fall-back's."""
        if first is not None and second is not None and first.job_type and second.job_type:
            measured = self._speeds.get((first.job_type, second.job_type))
            if measured is not None:
                return measured
        return self._fall_back.speeds(first, second)
