"""Jobs that run, for the calibration of run times."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.residual_hazards import LEVELS, places_passed
from lucid_models.duration.residual_news import ResidualNews

Floats = NDArray[np.float64]

TIERS = 3  # all jobs, those of a virtual cluster, those of an owner in it
_FIRST_ROWS = 64


@dataclass(frozen=True)
class RunningJob:
    """A started job: its quantiles as said, its weight, and of each tier the place of its group (-1: none, or
    forgotten) and that group's clock at its start.
    """

    start_s: float
    said: tuple[float, ...]
    weight: float
    places: tuple[int, ...]
    clocks: tuple[float, ...]


class RunningJobs:
    """Rows of one table: what they have passed is counted for all of them together."""

    START, WEIGHT = 0, 1
    PLACES, CLOCKS = slice(2, 2 + TIERS), slice(2 + TIERS, 2 + 2 * TIERS)
    SAID = slice(2 + 2 * TIERS, None)

    def __init__(self) -> None:
        self.job_ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._table = np.empty((_FIRST_ROWS, 2 + 2 * TIERS + len(LEVELS)))

    def __len__(self) -> int:
        return len(self.job_ids)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._rows

    def add(self, job_id: str, job: RunningJob) -> None:
        """A job that has just started."""
        row = len(self.job_ids)
        if row == len(self._table):
            self._table = np.concatenate([self._table, np.empty_like(self._table)])
        self._table[row] = (job.start_s, job.weight, *job.places, *job.clocks, *job.said)
        self._rows[job_id] = row
        self.job_ids.append(job_id)

    def remove(self, job_id: str) -> RunningJob:
        """Take a job out; the last one takes its row."""
        row = self._rows.pop(job_id)
        values = self._table[row].tolist()
        last = self.job_ids.pop()
        if last != job_id:
            self._table[row] = self._table[len(self.job_ids)]
            self._rows[last] = row
            self.job_ids[row] = last
        return RunningJob(
            values[self.START],
            tuple(values[self.SAID]),
            values[self.WEIGHT],
            tuple(map(int, values[self.PLACES])),
            tuple(values[self.CLOCKS]),
        )

    def forget(self, tier: int, place: int) -> None:
        """The group that had this place in a tier is forgotten."""
        places = self._table[: len(self), self.PLACES][:, tier]
        places[places == place] = -1.0

    def count_passed(self, at_s: float, tiers: Sequence[ResidualNews[Any]]) -> None:
        """Count anew what the running jobs have passed by `at_s` (Unix time)."""
        table = self._table[: len(self)]
        bins = places_passed(at_s - table[:, self.START], table[:, self.SAID])
        places, clocks = table[:, self.PLACES].astype(np.intp), table[:, self.CLOCKS]
        for number, tier in enumerate(tiers):
            tier.count_passed(places[:, number], table[:, self.WEIGHT], clocks[:, number], bins)

    def table(self) -> Floats:
        """A row a job, in the order of `job_ids`: the fields of RunningJob."""
        return self._table[: len(self)].copy()

    def copy(self) -> "RunningJobs":
        """An independent copy."""
        twin = RunningJobs()
        twin.job_ids, twin._rows, twin._table = list(self.job_ids), dict(self._rows), self._table.copy()
        return twin
