"""Quantiles of run times that stay calibrated while habits change: offsets that follow their own misses.

A quantile q of a job's log run time is what the model says plus an offset: one of all jobs and one of the
job's virtual cluster (Mondrian conformal prediction; Vovk et al. 2005, section 4.5). When a job ends, the
offset of q is raised by STEP x q if the run was longer than the quantile would be now, and lowered by
STEP x (1 - q) if not: quantile tracking (Gibbs and Candes, NeurIPS 2021; Angelopoulos et al., NeurIPS 2023).
Half of a step is everybody's: a virtual cluster with few jobs keeps to the whole log's offset, for each of
its own jobs moves it by STEP / 2 at most.

A run time is known only at the job's end, so what the model said at the submission (its score) is kept until
then. Point estimates, which order queues, do not read the offsets.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.model_format import Fields

Floats = NDArray[np.float64]

LEVELS = (0.5, 0.9)
# Of log run time: twenty misses of P90 in a row, a few dozen jobs after a change, raise it 2.5 times.
STEP = 0.05
# The part of each step that all jobs share.
SHARED = 0.5
# The least recently seen go first, and the jobs that were submitted first.
MAX_VIRTUAL_CLUSTERS = 10_000
MAX_AWAITED = 200_000
_UP = tuple(STEP * level for level in LEVELS)
_DOWN = tuple(STEP * (level - 1.0) for level in LEVELS)


class QuantileOffsets:
    """Offsets of log run time, one a level of LEVELS: of all jobs, and what virtual clusters add to them."""

    def __init__(self) -> None:
        self.of_all = [0.0] * len(LEVELS)
        self.by_cluster: dict[str, list[float]] = {}

    def of(self, virtual_cluster: str) -> tuple[float, ...]:
        """Offsets of a job of this virtual cluster; of a new one those of all jobs."""
        own = self.by_cluster.get(virtual_cluster)
        if own is None:
            return tuple(self.of_all)
        return tuple(every + one for every, one in zip(self.of_all, own, strict=True))

    def of_jobs(self, virtual_clusters: Sequence[str]) -> Floats:
        """Offsets of jobs by their virtual clusters, shape (jobs, levels)."""
        offsets = {name: self.of(name) for name in set(virtual_clusters)}
        return np.array([offsets[name] for name in virtual_clusters]).reshape(-1, len(LEVELS))

    def learn(self, virtual_cluster: str, beyond: Sequence[float]) -> None:
        """A job ended: `beyond` is by how much its log run time exceeds each quantile without its offset."""
        own = self.by_cluster.pop(virtual_cluster, None) or [0.0] * len(LEVELS)
        self.by_cluster[virtual_cluster] = own
        for level, (excess, offset) in enumerate(zip(beyond, self.of(virtual_cluster), strict=True)):
            step = _UP[level] if excess > offset else _DOWN[level]
            self.of_all[level] += SHARED * step
            own[level] += (1.0 - SHARED) * step
        if len(self.by_cluster) > MAX_VIRTUAL_CLUSTERS:
            del self.by_cluster[next(iter(self.by_cluster))]

    def copy(self) -> "QuantileOffsets":
        """An independent copy."""
        twin = QuantileOffsets()
        twin.of_all = list(self.of_all)
        twin.by_cluster = {name: list(own) for name, own in self.by_cluster.items()}
        return twin

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "of_all": list(self.of_all),
            "virtual_clusters": list(self.by_cluster),
            "offsets": [offset for own in self.by_cluster.values() for offset in own],
        }

    @classmethod
    def from_data(cls, fields: Fields) -> "QuantileOffsets":
        """Read what `to_data` wrote; raises CorruptModelError."""
        offsets = cls()
        of_all = fields.numbers("of_all", -1e3, 1e3, most=len(LEVELS))
        names = fields.texts("virtual_clusters", most=MAX_VIRTUAL_CLUSTERS, unique=True)
        own = fields.numbers("offsets", -1e3, 1e3, most=MAX_VIRTUAL_CLUSTERS * len(LEVELS))
        if of_all.size != len(LEVELS) or own.size != len(names) * len(LEVELS):
            raise fields.fail("offsets", "does not hold one number a level and virtual cluster")
        offsets.of_all = of_all.tolist()
        offsets.by_cluster = dict(zip(names, own.reshape(-1, len(LEVELS)).tolist(), strict=True))
        return offsets


class RunTimeCalibration:
    """The offsets now, and of each job that has not ended what was said at its submission.

    What was said are the quantiles of LEVELS without offsets, in log seconds.
    """

    def __init__(self, offsets: QuantileOffsets | None = None) -> None:
        self.offsets = offsets or QuantileOffsets()
        self.awaited: dict[str, tuple[str, tuple[float, ...]]] = {}

    def submitted(self, job_id: str, virtual_cluster: str, said: Sequence[float]) -> None:
        """A job was submitted (again), and its quantiles were said to be these."""
        self.awaited.pop(job_id, None)
        self.awaited[job_id] = (virtual_cluster, tuple(said))
        if len(self.awaited) > MAX_AWAITED:
            del self.awaited[next(iter(self.awaited))]

    def ended(self, job_id: str, duration_s: float) -> None:
        """A job ended; of one that was not seen being submitted nothing is learned."""
        awaited = self.awaited.pop(job_id, None)
        if awaited is None:
            return
        virtual_cluster, said = awaited
        logarithm = math.log(max(duration_s, 1.0))
        self.offsets.learn(virtual_cluster, [logarithm - each for each in said])

    def withdrawn(self, job_id: str) -> None:
        """A job will not run (again)."""
        self.awaited.pop(job_id, None)

    def copy(self) -> "RunTimeCalibration":
        """An independent copy."""
        twin = RunTimeCalibration(self.offsets.copy())
        twin.awaited = dict(self.awaited)
        return twin

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "offsets": self.offsets.to_data(),
            "awaited": list(self.awaited),
            "awaited_virtual_clusters": [name for name, _ in self.awaited.values()],
            "awaited_quantiles": [each for _, said in self.awaited.values() for each in said],
        }

    @classmethod
    def from_data(cls, fields: Fields) -> "RunTimeCalibration":
        """Read what `to_data` wrote; raises CorruptModelError."""
        calibration = cls(QuantileOffsets.from_data(fields.child("offsets")))
        jobs = fields.texts("awaited", most=MAX_AWAITED, unique=True)
        names = fields.texts("awaited_virtual_clusters", most=MAX_AWAITED)
        said = fields.numbers("awaited_quantiles", -1e3, 1e3, most=MAX_AWAITED * len(LEVELS))
        if len(names) != len(jobs) or said.size != len(jobs) * len(LEVELS):
            raise fields.fail("awaited", "does not match its virtual clusters and quantiles")
        for job_id, name, each in zip(jobs, names, said.reshape(-1, len(LEVELS)).tolist(), strict=True):
            calibration.submitted(job_id, name, each)
        return calibration


def virtual_cluster_of(job: Mapping[str, Any]) -> str:
    """The virtual cluster that a job is calibrated with; jobs without one are together."""
    name = job.get("virtual_cluster")
    return "" if name is None or name != name else str(name)
