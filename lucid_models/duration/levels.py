"""The levels of the run-time statistics, the features that each gives, and where they stand in a row."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError

# level -> the parts of its key, and the level towards which its mean is shrunk.
LEVELS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "all": ((), None),
    "size": (("size",), "all"),
    "virtual_cluster": (("virtual_cluster",), "all"),
    "virtual_cluster_size": (("virtual_cluster", "size"), "size"),
    "job_type": (("job_type",), "all"),
    "time_limit": (("time_limit",), "all"),
    "bucket": (("bucket",), "all"),
    "family": (("family",), "bucket"),
    "name": (("name",), "family"),
    "user": (("user",), "all"),
    "user_size": (("user", "size"), "user"),
    "user_time_limit": (("user", "time_limit"), "user"),
    "user_size_time_limit": (("user", "size", "time_limit"), "user_time_limit"),
    "user_bucket": (("user", "bucket"), "user"),
    "user_family": (("user", "family"), "user_bucket"),
    "user_family_size": (("user", "family", "size"), "user_family"),
    "user_name": (("user", "name"), "user_family"),
    "user_name_size": (("user", "name", "size"), "user_name"),
}
# Parts of keys that are not a fact of the job's own name: the facts that they are made of.
_MADE_OF = {
    "size": ("gpus", "cpus"),
    "time_limit": ("time_limit_s",),
    "family": ("name",),
    "bucket": ("name",),
}
_COARSE = ("all", "size", "virtual_cluster", "virtual_cluster_size", "job_type", "time_limit", "bucket")
_COARSE_STATISTICS = ("mean", "raw_mean", "soft_mean")
_FINE_STATISTICS = ("mean", "raw_mean", "soft_mean", "last", "last_two", "median", "spread", "log_count")
_FLIGHT_STATISTICS = ("log_running", "log_oldest_age", "log_since_submission")
_FLIGHT_LEVELS = ("user", "user_name", "name", "virtual_cluster")
# Of these features of a fine level only the first is a coarse one's too.
STILL = _FINE_STATISTICS[2:]


PARTS = tuple(dict.fromkeys(part for parts, _ in LEVELS.values() for part in parts))


def facts_of_part(part: str) -> tuple[str, ...]:
    """The facts of a job that a part of a key is made of."""
    return _MADE_OF.get(part, (part,))


class FeatureLayout:
    """Levels in the order of LEVELS, where a parent comes before its children, and the places of features.

    `parents` are the levels towards which means are shrunk, by position (-1: none); `depths` the positions of
    the levels that are as far from the top, and those of their parents; `flights` the positions of the levels
    that know which jobs are in flight, `fine` of those that also know the last run times.
    `names` are those of the statistics, level after level. The places, in this order, are shaped: means (2,
    levels), soft means (levels,), the rest of STILL (its features, fine levels), in flight (3, flights).
    """

    def __init__(self, levels: Sequence[str]) -> None:
        for name in levels:
            if name not in LEVELS:
                raise BadInputError(f"Unknown level {name!r}.", remedy=f"Choose from: {', '.join(LEVELS)}.")
        self.levels = tuple(name for name in LEVELS if name in levels or name == "all")
        self.parents = tuple(self._parent_position(name) for name in self.levels)
        self.depths = self._by_depth()
        self.tracks_flights = tuple(name in _FLIGHT_LEVELS for name in self.levels)
        self.flights = np.flatnonzero(self.tracks_flights)
        self.fine = np.flatnonzero([name not in _COARSE for name in self.levels])
        self.names = tuple(
            f"{level}:{statistic}"
            for level, in_flight in zip(self.levels, self.tracks_flights, strict=True)
            for statistic in (
                *(_COARSE_STATISTICS if level in _COARSE else _FINE_STATISTICS),
                *(_FLIGHT_STATISTICS if in_flight else ()),
            )
        )
        every = np.arange(len(self.levels))
        self.means = self._places(every, _COARSE_STATISTICS[:2])
        self.soft_means = self._places(every, STILL[:1])[0]
        self.last_runs = self._places(self.fine, STILL[1:])
        self.in_flight = self._places(self.flights, _FLIGHT_STATISTICS)

    def _parent_position(self, level: str) -> int:
        parent = LEVELS[level][1]
        while parent is not None and parent not in self.levels:
            parent = LEVELS[parent][1]
        return -1 if parent is None else self.levels.index(parent)

    def _by_depth(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        depths: list[tuple[list[int], list[int]]] = []
        depth_of: list[int] = []
        for position, parent in enumerate(self.parents):
            depth = depth_of[parent] + 1 if parent >= 0 else 0
            depth_of.append(depth)
            if depth == len(depths):
                depths.append(([], []))
            depths[depth][0].append(position)
            if parent >= 0:
                depths[depth][1].append(parent)
        return [(np.array(levels, np.intp), np.array(parents, np.intp)) for levels, parents in depths]

    def _places(self, positions: NDArray[np.intp], statistics: Sequence[str]) -> NDArray[np.intp]:
        """Where these statistics of these levels stand, shape (statistics, levels)."""
        place = {name: at for at, name in enumerate(self.names)}
        found = [place[f"{self.levels[at]}:{statistic}"] for statistic in statistics for at in positions]
        return np.array(found, dtype=np.intp).reshape(len(statistics), len(positions))
