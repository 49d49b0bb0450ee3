"""What acts on a simulated cluster beside the policy, as part of a scenario.

A `Companion` says what there is, as data. Attached to a simulation it is an `Attached`: a recorder that may
foresee events of its own, and acts when these come and at the end of every moment.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from foundation.errors import UnknownNameError
from foundation.parts import at_place, lacking, offered
from simulator.job_view import JobView
from simulator.recorder import Recorder
from simulator.results.result import SimulationResult
from simulator.scenario.agenda import Agenda, Event
from simulator.snapshot import Lender, NodePool

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Floats = NDArray[np.float64]


class CompanionEvent:
    """What a companion foresees on the agenda (`EventKind.CLUSTER`); frozen, as states share it.

    `companion` is the key of the companion that it is for. `only_looks`: by itself it changes nothing, so
    that a simulation in which no other is to come may be over.
    """

    __slots__ = ()
    companion: ClassVar[str]
    only_looks: ClassVar[bool] = False


@dataclass(frozen=True)
class Beginning:
    """What a companion is attached to: a simulation that is about to begin, or to go on, at `now_s`.

    `jobs` are all, in the order of their submissions. `clock_s` is the time at second 0 (s since 1970; 0
    where the log does not say). Jobs count that are submitted from `counted_from_s` on (None: all). `memory`
    is what the companion of another simulation handed over (`Attached.memory`), which stays as it is.
    """

    pools: Mapping[str, NodePool]
    virtual_clusters: Sequence[str]
    jobs: Sequence[JobView]
    agenda: Agenda
    now_s: float
    clock_s: float
    counted_from_s: float | None
    lender: Lender | None
    memory: Any


class Attached(Recorder):
    """A companion in one simulation; this one does nothing."""

    def begin(self) -> None:
        """Foresee what is to come: the agenda has all that is known beforehand."""

    def memory(self) -> Any:
        """Return what the companion of a simulation that goes on from here is to know; None: nothing."""
        return None

    def happen(self, event: Any, now_s: float) -> Collection[NodePool]:
        """Let an event of its own happen; return the pools in which the policy is to decide."""
        return ()

    def changed(self, pools: Collection[NodePool]) -> None:
        """Nodes of these pools came, left, failed or were repaired."""

    def look(self, now_s: float, *, more_jobs: bool) -> bool:
        """Act at the end of a moment, when the policy has decided; say whether more happens at this moment.

        `more_jobs`: some are yet to be submitted.
        """
        return False

    def nothing_starts(self, now_s: float, pools: Mapping[str, NodePool], events: Iterable[Event]) -> bool:
        """Whether no job will ever start again; asked at each moment after the last submission."""
        return False

    def mean_gpus(self, own_gpus: Callable[[float], float]) -> Callable[[float], float]:
        """Return how many GPUs there were on average until a moment (s), given those of its own nodes."""
        return own_gpus

    def summary(self, end_s: float, mean_gpus: float, jobs: Sequence[JobView]) -> dict[str, Any]:
        """Return its figures of a simulation that ended at `end_s`, on a cluster of so many GPUs."""
        return {}

    def kept(self) -> Any:
        """Return what it noted over time, for `SimulationResult.kept`; None: nothing."""
        return None


class Companion(ABC):
    """Something that acts on a cluster beside the policy; a frozen dataclass.

    `key` names it in a scenario, its states and results; `noun` is what it is called in a sentence, in the
    plural. `wakes`: it reopens nodes that sleep or boot. With `is_compared` a replay of a log is made without
    it, too (`added`).
    """

    key: ClassVar[str]
    noun: ClassVar[str]
    wakes: ClassVar[bool] = False
    is_compared: ClassVar[bool] = False

    @abstractmethod
    def attach(self, beginning: Beginning) -> Attached:
        """Return this companion in one simulation."""

    def known_ahead(self) -> Self:
        """Return it without what is not known beforehand."""
        return self

    @property
    def acts(self) -> bool:
        """Whether it does anything at all."""
        return True

    @property
    def is_random(self) -> bool:
        """Whether anything is drawn with a seed."""
        return False

    def added(self, result: SimulationResult, without: SimulationResult) -> Mapping[str, Any]:
        """Return what it adds to the same replay without it, for the summary."""
        return {}


class OverTime(ABC):
    """What a companion kept of one simulation that is to be seen: step functions of time.

    `name` is that of its files, NAME_POLICY.csv and NAME.png, and of its counter on a timeline, which shows
    the columns `counters`.
    """

    name: ClassVar[str]
    counters: ClassVar[tuple[str, ...]]

    @abstractmethod
    def columns(self) -> Mapping[str, Floats]:
        """Return its columns, of equal length: each value holds from `at_s` until the next."""

    @classmethod
    @abstractmethod
    def drawn(cls, by_policy: Mapping[str, Self], *, from_s: float) -> "Figure":
        """Draw those of several policies from `from_s` on."""


def companion_names() -> list[str]:
    """Return the names of all companions that settings alone make (`Part.companions`)."""
    return sorted(offered("companions"))


def companion_of(name: str, settings: Mapping[str, Any], seed: int = 0) -> Companion:
    """Make a companion of settings; what it draws, it draws with `seed`.

    Raises UnknownNameError for a name or a setting that does not exist, BadInputError for a bad value,
    NotFoundError for a companion of a part that is not installed.
    """
    make: Callable[[Mapping[str, Any], int], Companion] = at_place(companion_place(name))
    return make(settings, seed)


def companion_place(name: str) -> str:
    """Return the place of the function that makes a companion; raises as `companion_of`."""
    place = offered("companions").get(name)
    if place is None:
        raise lacking().get(f"companion {name}") or UnknownNameError("companion", name, companion_names())
    return place
