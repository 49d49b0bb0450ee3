"""The GPUs that a log's jobs held over time, beside those that the node table has."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.wait_fidelity.logged_jobs import Floats, LoggedJobs


@dataclass(frozen=True, eq=False)
class GpusInUse:
    """Of one virtual cluster: from `at_s[i]` to `at_s[i + 1]` its jobs hold `used[i]` of `there[i]` GPUs."""

    at_s: Floats
    used: Floats
    there: Floats

    @classmethod
    def of(cls, running: Iterable[LoggedJobs], sizes: Iterable[tuple[float, float]]) -> "GpusInUse":
        """`running`: the jobs of the virtual cluster; `sizes`: (from when on in s, GPUs) in order of time."""
        times, steps = [], []
        for jobs in running:
            held = np.isfinite(jobs.start_s) & np.isfinite(jobs.end_s) & (jobs.end_s > jobs.start_s)
            times += [jobs.start_s[held], jobs.end_s[held]]
            steps += [jobs.gpus[held], -jobs.gpus[held]]
        since, gpus = (np.array(column, dtype=np.float64) for column in zip(*sizes, strict=True))
        at_s, place = np.unique(np.concatenate([*times, since]), return_inverse=True)
        changed = np.bincount(place[: -len(since)], np.concatenate(steps), minlength=len(at_s))
        before = np.searchsorted(since, at_s, side="right") - 1
        return cls(at_s, np.cumsum(changed), gpus[np.maximum(before, 0)])

    def beyond_at(self, moments_s: Floats) -> Floats:
        """Return by how many GPUs more than there are were in use at these moments; 0 or more."""
        place = np.clip(np.searchsorted(self.at_s, moments_s, side="right") - 1, 0, len(self.at_s) - 1)
        return np.maximum(self.used[place] - self.there[place], 0.0)

    def enough_free_s(self, gpus: Floats, from_s: Floats, until_s: Floats) -> Floats:
        """Return for how long, of each span, as many GPUs were free as a job wants."""
        lasts = np.diff(self.at_s, append=self.at_s[-1])
        free = self.there - self.used
        whole = np.zeros(len(gpus))
        for wanted in np.unique(gpus):
            mine: NDArray[np.bool_] = gpus == wanted
            passed = np.concatenate([[0.0], np.cumsum(lasts * (free >= wanted))[:-1]])
            ends, begins = (np.interp(moments[mine], self.at_s, passed) for moments in (until_s, from_s))
            whole[mine] = ends - begins
        return whole
