"""What the started jobs of a virtual cluster, or of all, tell of residuals; earlier starts count ever less.

Weights fall with what has *started* since, not with what has ended: among the jobs that started together the
long ones, which end later, count as much as the short ones. A clock of weight takes the place of time.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.residual_hazards import BINS, LEVELS, SHAPE, hazards, places_passed

Floats = NDArray[np.float64]

# After starts of this weight a job's own weight has fallen by the factor e.
WINDOW = 150.0
_FIRST_ROWS = 64


@dataclass
class ResidualNews:
    """Weights of jobs by the bin that they ended in, or last passed while they run, shape SHAPE each; and
    the weight of all starts until now (`clock`).
    """

    ended: Floats = field(default_factory=lambda: np.zeros(SHAPE))
    passed: Floats = field(default_factory=lambda: np.zeros(SHAPE))
    clock: float = 0.0

    def start(self, weight: float) -> None:
        """A job of this weight starts, and those before it fade."""
        fading = math.exp(-weight / WINDOW)
        self.ended *= fading
        self.passed *= fading
        self.clock += weight

    def weight_now(self, weight: float, clock: float) -> float:
        """The weight of a job that started at this clock."""
        return weight * math.exp((clock - self.clock) / WINDOW)

    def hazards(self, prior: Floats) -> Floats:
        """Hazards of residuals, drawn to `prior`."""
        return hazards(self.ended, self.passed, prior)

    def copy(self) -> "ResidualNews":
        """An independent copy."""
        return ResidualNews(self.ended.copy(), self.passed.copy(), self.clock)


@dataclass(frozen=True)
class RunningJob:
    """A started job: its quantiles as said, its weight, and the clocks at its start of all jobs and of its
    virtual cluster (`place`: among those known; -1: forgotten).
    """

    start_s: float
    said: tuple[float, ...]
    weight: float
    clock_of_all: float
    clock: float
    place: int


class RunningJobs:
    """Jobs that run, as rows of one table: what they have passed is counted for all of them together."""

    START, WEIGHT, CLOCK_OF_ALL, CLOCK, PLACE, SAID = range(6)

    def __init__(self) -> None:
        self.job_ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._table = np.empty((_FIRST_ROWS, self.SAID + len(LEVELS)))

    def __len__(self) -> int:
        return len(self.job_ids)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._rows

    def add(self, job_id: str, job: RunningJob) -> None:
        """A job that has just started."""
        row = len(self.job_ids)
        if row == len(self._table):
            self._table = np.concatenate([self._table, np.empty_like(self._table)])
        self._table[row] = (job.start_s, job.weight, job.clock_of_all, job.clock, job.place, *job.said)
        self._rows[job_id] = row
        self.job_ids.append(job_id)

    def remove(self, job_id: str) -> RunningJob:
        """Take a job out; the last one takes its row."""
        row = self._rows.pop(job_id)
        start_s, weight, clock_of_all, clock, place, *said = self._table[row].tolist()
        last = self.job_ids.pop()
        if last != job_id:
            self._table[row] = self._table[len(self.job_ids)]
            self._rows[last] = row
            self.job_ids[row] = last
        return RunningJob(start_s, tuple(said), weight, clock_of_all, clock, int(place))

    def forget_place(self, place: int) -> None:
        """No virtual cluster is known at this place any more."""
        places = self._table[: len(self), self.PLACE]
        places[places == place] = -1.0

    def count_passed(self, at_s: float, of_all: ResidualNews, of_clusters: list[ResidualNews]) -> None:
        """Count anew what the running jobs have passed by `at_s` (Unix time)."""
        table = self._table[: len(self)]
        places = places_passed(at_s - table[:, self.START], table[:, self.SAID :])
        bins = places + BINS * np.arange(len(LEVELS))
        everybody = np.zeros(len(table), dtype=np.intp)
        self._count(bins, places >= 0, everybody, self.CLOCK_OF_ALL, [of_all])
        owns = table[:, self.PLACE].astype(np.intp)
        self._count(bins, (places >= 0) & (owns >= 0)[:, None], owns, self.CLOCK, of_clusters)

    def table(self) -> Floats:
        """A row a job, in the order of `job_ids`: the fields of RunningJob."""
        return self._table[: len(self)].copy()

    def copy(self) -> "RunningJobs":
        """An independent copy."""
        twin = RunningJobs()
        twin.job_ids, twin._rows, twin._table = list(self.job_ids), dict(self._rows), self._table.copy()
        return twin

    def _count(
        self,
        bins: NDArray[np.intp],
        counted: NDArray[np.bool_],
        owns: NDArray[np.intp],
        clock_column: int,
        news: list[ResidualNews],
    ) -> None:
        table = self._table[: len(self)]
        clocks = np.array([one.clock for one in news])
        ages = table[:, clock_column] - clocks[owns] if len(news) else np.zeros(len(table))
        weights = np.where(counted, (table[:, self.WEIGHT] * np.exp(ages / WINDOW))[:, None], 0.0)
        size = SHAPE[0] * SHAPE[1]
        flat = np.where(counted, owns[:, None] * size + bins, 0)
        passed: Floats = np.zeros(max(len(news), 1) * size)
        passed += np.bincount(flat.ravel(), weights.ravel(), minlength=passed.size)
        for one, of_one in zip(news, passed.reshape(-1, *SHAPE), strict=False):
            one.passed = of_one
