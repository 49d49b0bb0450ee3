"""The levels of the run-time statistics: what jobs have in common, and where each level's features stand.

A level is made of *parts*: a fact of a job (its user, its queue), or what is made of facts (its size, the
family of its name). Which levels a model has is found from its log (`level_search`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_logs.job_facts import JOB_FACTS, Kind, KnownFrom
from foundation.errors import BadInputError
from lucid_models.model_format import Fields, FormatVersionError

# Parts that are an amount that was asked for, and the facts that hold it.
AMOUNTS = {"time_limit": "time_limit_s", "requested_memory": "requested_memory_mib"}
# Parts that are not a fact as it stands: the facts that they are made of.
_MADE_OF = {
    "size": ("gpus", "cpus"),
    **{part: (fact,) for part, fact in AMOUNTS.items()},
    "family": ("name",),
    "bucket": ("name",),
}
# In the order in which they are tried and named: of two that divide the jobs alike the first is kept.
PARTS = (
    *(
        fact.name
        for fact in JOB_FACTS
        if fact.kind is Kind.TEXT and fact.known is KnownFrom.SUBMITTED and fact.name != "job_id"
    ),
    *_MADE_OF,
)
_WORDS = {fact.name: fact.words for fact in JOB_FACTS}
# What follows from a part: from a name its family, and from a family its bucket.
_IMPLIES = {"name": ("family", "bucket"), "family": ("bucket",)}

_MEANS = ("mean", "raw_mean", "soft_mean")
NAIVE = "naive"
_LAST_RUNS = ("last", "last_two", "median", "spread", "log_count")
_FLIGHTS = ("log_running", "log_oldest_age", "log_since_submission")
# Those that look at a key's own finished jobs alone.
STILL = (_MEANS[-1], *_LAST_RUNS)
ALL = "all"
# Of the saved state; raised when a reader of the layout before would not know what it reads.
LAYOUT = 4
MOST_LEVELS = 64


def facts_of_part(part: str) -> tuple[str, ...]:
    """The facts of a job that a part of a key is made of."""
    return _MADE_OF.get(part, (part,))


def part_words(part: str) -> str:
    """What people call a part of a key: `virtual cluster`, `QOS`."""
    return _WORDS.get(part) or part.replace("_", " ")


def level_name(parts: Sequence[str]) -> str:
    """`user_size` for jobs of one user and size; `all` for all jobs."""
    return "_".join(parts) or ALL


@lru_cache(maxsize=4_096)
def level_parts(level: str) -> tuple[str, ...]:
    """The parts of a level by its name; raises BadInputError for a part that there is none of."""
    if level == ALL:
        return ()
    for part in PARTS:
        if level == part:
            return (part,)
        if level.startswith(f"{part}_"):
            try:
                return (part, *level_parts(level.removeprefix(f"{part}_")))
            except BadInputError:
                continue
    raise BadInputError(
        f"Unknown level {level!r}.", remedy=f"Join one or more of: {', '.join(PARTS)} by underscores."
    )


def is_coarser(parts: Sequence[str], than: Sequence[str]) -> bool:
    """Whether jobs that have `than` in common always have `parts` in common, and not the reverse."""
    coarse, fine = _implied_by(parts), _implied_by(than)
    return coarse < fine


def _implied_by(parts: Sequence[str]) -> frozenset[str]:
    return frozenset([*parts, *(more for part in parts for more in _IMPLIES.get(part, ()))])


@dataclass(frozen=True)
class Level:
    """Jobs that have `parts` in common. Their mean run time leans on that of the level `parent` (None: on
    nothing).

    A feature of every level are its means; `last_runs` and `flights` say whether the run times of its last
    jobs are too, and which of its jobs run or were submitted lately; `naive`, whether the naive estimate is.
    """

    parts: tuple[str, ...]
    parent: str | None = None
    last_runs: bool = True
    flights: bool = True
    naive: bool = False

    @property
    def name(self) -> str:
        """The parts as one word."""
        return level_name(self.parts)

    @property
    def statistics(self) -> tuple[str, ...]:
        """The names of its features."""
        return (
            *_MEANS,
            *((NAIVE,) if self.naive else ()),
            *(_LAST_RUNS if self.last_runs else ()),
            *(_FLIGHTS if self.flights else ()),
        )

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "parts": list(self.parts),
            "parent": self.parent,
            "last_runs": self.last_runs,
            "flights": self.flights,
            "naive": self.naive,
        }


TOP = Level((), last_runs=False, flights=False)


def hierarchy(levels: Sequence[Sequence[str]], means_only: Sequence[Sequence[str]] = ()) -> tuple[Level, ...]:
    """Levels of these parts, the coarsest first, below the level of all jobs.

    Each leans on the last one before it that is coarser (`is_coarser`); those of `means_only` have means
    alone.
    """
    placed: list[Level] = [TOP]
    for parts in levels:
        if parts:
            above = next(level for level in reversed(placed) if is_coarser(level.parts, parts))
            whole = parts not in means_only
            placed.append(Level(tuple(parts), above.name, whole, whole))
    return tuple(placed)


def with_naive_estimate(levels: Sequence[Level], parts: Sequence[str]) -> tuple[Level, ...]:
    """The same levels; that of `parts`, which has means alone if it is not among them, with the naive
    estimate.
    """
    if any(level.parts == tuple(parts) for level in levels):
        return tuple(replace(level, naive=True) if level.parts == tuple(parts) else level for level in levels)
    above = next(level for level in reversed(levels) if is_coarser(level.parts, parts))
    return (*levels, Level(tuple(parts), above.name, last_runs=False, flights=False, naive=True))


def learned_features(names: Sequence[str]) -> NDArray[np.intp]:
    """The places of the features that are learned from: all but the naive estimate, and but those of the
    level of all jobs, unless there is no other.

    What all jobs did lately is the same for every job of an hour: it tells no job from another, but one day
    from the next, and the days that come are none of those that were.
    """
    of_all = [name.startswith(f"{ALL}:") for name in names]
    alone = not any(":" in name and not common for name, common in zip(names, of_all, strict=True))
    kept = [
        (alone or not common) and not name.endswith(f":{NAIVE}")
        for name, common in zip(names, of_all, strict=True)
    ]
    return np.flatnonzero(kept)


class FeatureLayout:
    """Levels in an order where a parent comes before its children, and the places of features.

    `levels` are their names. `parents` are the levels towards which means are shrunk, by position (-1: none);
    `depths` the positions of the levels that are as far from the top, and those of their parents; `flights`
    the positions of the levels that know which jobs are in flight, `fine` of those that also know the last
    run times, `with_naive` of those with the naive estimate. `names` are those of the statistics, level after
    level. The places, in this order, are shaped: means (2, levels), soft means (levels,), naive (levels with
    it,), the rest of STILL (its features, fine levels), in flight (3, flights).

    Raises BadInputError for a level that comes twice, or before its parent.
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        self.of = tuple(levels)
        self.levels = tuple(level.name for level in levels)
        self.parents = tuple(self._parent_position(at) for at in range(len(levels)))
        self.depths = self._by_depth()
        self.tracks_flights = tuple(level.flights for level in levels)
        self.flights = np.flatnonzero(self.tracks_flights)
        self.fine = np.flatnonzero([level.last_runs for level in levels])
        self.with_naive = np.flatnonzero([level.naive for level in levels])
        self.names = tuple(f"{level.name}:{statistic}" for level in levels for statistic in level.statistics)
        place = {name: at for at, name in enumerate(self.names)}
        every = np.arange(len(levels))
        self.means = self._places(place, every, _MEANS[:2])
        self.soft_means = self._places(place, every, STILL[:1])[0]
        self.naive = self._places(place, self.with_naive, (NAIVE,))[0]
        self.last_runs = self._places(place, self.fine, STILL[1:])
        self.in_flight = self._places(place, self.flights, _FLIGHTS)

    def _parent_position(self, at: int) -> int:
        level, before = self.of[at], self.levels[:at]
        if level.name in before or (level.parent is not None and level.parent not in before):
            raise BadInputError(
                f"The level {level.name!r} comes twice, or before {level.parent!r}, which it leans on.",
                remedy="Name each level once, the coarsest first.",
            )
        return -1 if level.parent is None else before.index(level.parent)

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

    def _places(
        self, place: Mapping[str, int], positions: NDArray[np.intp], statistics: Sequence[str]
    ) -> NDArray[np.intp]:
        """Where these statistics of these levels stand, shape (statistics, levels)."""
        places = [place[f"{self.levels[at]}:{statistic}"] for statistic in statistics for at in positions]
        return np.array(places, dtype=np.intp).reshape(len(statistics), len(positions))


def read_levels(state: Fields) -> Sequence[Level]:
    """The levels of a saved state; raises CorruptModelError and FormatVersionError."""
    layout = state.integer("layout", 1, 1_000_000) if state.has("layout") else 1
    if layout != LAYOUT:
        raise FormatVersionError(
            f"{state.place} has layout {layout} of the statistics; this program reads {LAYOUT}.",
            remedy="Train the duration model again with this version.",
        )
    levels: list[Level] = []
    for item in state.children("levels", most=MOST_LEVELS):
        level = Level(
            tuple(item.texts("parts", most=len(PARTS), unique=True)),
            item.text("parent") if item.has("parent") else None,
            item.flag("last_runs"),
            item.flag("flights"),
            item.flag("naive"),
        )
        before = [other.name for other in levels]
        if not set(level.parts) <= set(PARTS) or level.name in before:
            raise item.fail("parts", "name something unknown, or make a level that is there already")
        above = next((other.parts for other in levels if other.name == level.parent), None)
        is_top = replace(level, naive=False) == TOP
        if (above is None or not is_coarser(above, level.parts)) if before else not is_top:
            raise item.fail("parent", "is no coarser level before it")
        levels.append(level)
    if not levels:
        raise state.fail("levels", "is empty")
    return levels


def level_words(level: str) -> str:
    """`user x time limit`, `all jobs`."""
    return " x ".join(map(part_words, level_parts(level))) or "all jobs"


def level_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a chosen level, in the order in which they were chosen: {jobs_alike_in, keys, mae_log10, gain}.

    `mae_log10` is the error of the search's own simple prediction once the level is known, `gain` by how
    much that lowered it; the first row is what the mean of all jobs says. Empty where nothing was tried.
    """
    if not record.get("chosen"):
        return []
    error = float(record["error_of_all_jobs"])
    rows = [{"jobs_alike_in": level_words("all"), "keys": 1, "mae_log10": error, "gain": None}]
    for level in record["chosen"]:
        error -= level["gain"]
        words = level_words(level["level"])
        rows.append(
            {"jobs_alike_in": words, "keys": level["keys"], "mae_log10": error, "gain": level["gain"]}
        )
    return rows
