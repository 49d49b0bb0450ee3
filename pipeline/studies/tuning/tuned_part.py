"""What a part adds to what is tuned of a release: at the place `tuned` of a `Part`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pandas as pd

from foundation.parts import hooks
from foundation.site import Site
from pipeline.validation.contenders import ReplayContender
from pipeline.validation.held_out_data import HeldOutWindow
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.results.result import SimulationResult

Value = int | float | str
Values = Mapping[str, Value]


class Tried(NamedTuple):
    """A setting: what people call it, and the values to try, ascending; texts from the least to the most."""

    symbol: str
    values: tuple[Value, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The values of a setting of texts, which takes no others; empty for numbers."""
        return tuple(value for value in self.values if isinstance(value, str))


class ShownFigure(NamedTuple):
    """What people call a figure of a trial, and how many digits count."""

    title: str
    digits: int


class FigureLimit(NamedTuple):
    """How much a figure may be, and the field of study.json that keeps it.

    A trial beyond is not the best, whatever its objective.
    """

    field: str
    figure: str
    limit: float


@dataclass(frozen=True)
class TunedPolicy:
    """A policy of the part's own that can be tuned.

    - `tells`: whether a job table says what its settings act on; `replayed`: the inputs as it says so.
    - `nothing`, `remedy`: what is said where neither that nor anything else of the release can be tuned.
    """

    settings: Mapping[str, Tried]
    tells: Callable[[pd.DataFrame], bool]
    replayed: Callable[[ReplayInputs], ReplayInputs]
    nothing: str
    remedy: str


class ReplayedPart(NamedTuple):
    """A contender with the part, what it is replayed on, and the part's figures of the result.

    `figures` takes the result and the window's rows of its `counted`.
    """

    contender: ReplayContender
    inputs: ReplayInputs
    figures: Callable[[SimulationResult, pd.DataFrame], dict[str, float]]


class PartReplays(ABC):
    """A part on a study's frozen inputs; what its trials share is read once."""

    @abstractmethod
    def beside(
        self,
        contender: ReplayContender,
        inputs: ReplayInputs,
        window: HeldOutWindow,
        settings: Mapping[str, Any],
    ) -> ReplayedPart:
        """Return a trial's contender with the part under these settings of it."""


class TunedPart(ABC):
    """The settings of a part of a release, in the release's field `field`, that are tuned.

    `settings` are tried of any release that has the field; `policies`: by name; `figures` are those that the
    part adds to a trial's.
    """

    field: str
    settings: Mapping[str, Tried]
    figures: Mapping[str, ShownFigure]
    policies: Mapping[str, TunedPolicy]

    @abstractmethod
    def pinned(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return all settings of the part; raises BadInputError for a bad value."""

    @abstractmethod
    def known(self, site: Site, until: datetime) -> pd.DataFrame:
        """Read what trials go by, as it was known at `until`; raises NotFoundError where there is none."""

    @abstractmethod
    def freeze(
        self, rows: pd.DataFrame, cluster: str, folder_uri: str, learned_until: datetime
    ) -> tuple[str, ...]:
        """Write that beside the other inputs, and what is learned of it until a moment; returns remarks."""

    @abstractmethod
    def replays(self, inputs_uri: str, cluster: str) -> PartReplays:
        """Open what `freeze` wrote."""

    @abstractmethod
    def limit(self) -> FigureLimit:
        """Return the most that one of its figures may be, by the installation's rules of the gate."""

    def of(self, values: Values) -> dict[str, Value]:
        """Return a trial's settings of the part."""
        return {name: value for name, value in values.items() if name in self.settings}


def tuned_parts() -> Iterator[TunedPart]:
    """Yield what installed parts add, by the parts' names."""
    for _, part in hooks("tuned"):
        yield part


def tuned_policies() -> dict[str, TunedPolicy]:
    """Return the policies of parts that can be tuned."""
    return {name: policy for part in tuned_parts() for name, policy in part.policies.items()}
