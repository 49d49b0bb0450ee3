"""What parts add to the live scheduler: a table of settings, a look at each pass, answers, a way back.

    PART = Part(..., live="MODULE:NAME")    # there stands an object of a subclass of LiveCapability

The daemon, the dead man's switch, the service and the command line go through `capabilities()`, and name
none. A module at such a place imports what only a daemon or a service needs when it is asked for it: the
switch that waits stays small.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

from foundation.errors import LucidError
from foundation.parts import hooks
from live_scheduler.memory.records import LastLines

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from live_scheduler.cluster_state import ClusterState
    from live_scheduler.daemon import Daemon
    from live_scheduler.forecast.submission_predictor import OtherStarts
    from live_scheduler.live_settings import LiveSettings
    from live_scheduler.release import LiveRelease, Release
    from live_scheduler.safety.control_lease import ControlLease
    from live_scheduler.service.messages import Message


logger = logging.getLogger("lucid.live")
PROFILING_PARTITION = "profiling_partition"


class PartStatus(Protocol):
    """What is known after a look: a `live_scheduler.service.messages.Message`."""

    def told(self) -> "Message":
        """Return it as a message for people."""


class PartStage(Protocol):
    """What looks at the cluster after each decision. `view` is the last look (None: none yet)."""

    view: Any

    def after_decision(self, cluster: "ClusterState", release: "LiveRelease") -> None:
        """Look once, and do what the mode allows, under the daemon's lease. Never raises."""


class GivenBack(Protocol):
    """What one look gave back."""

    @property
    def complete(self) -> bool:
        """Whether all is back."""

    @property
    def changed(self) -> bool:
        """Whether anything was to be given back."""

    def followed_by(self, later: Self) -> Self:
        """Return both as one."""

    def describe(self) -> str:
        """Return one line for people."""

    def news(self, before: Self) -> Iterator[str]:
        """Yield lines for people about what was not so at the looks before."""

    def refusals(self) -> Iterator[str]:
        """Yield a line for people for each refusal that stands."""

    def document(self) -> dict[str, list[str]]:
        """Return it as fields of the restore command's JSON."""


class WayBack(ABC):
    """How changes that must be undone are undone, by a record that is written before each of them.

    `quick`: it takes seconds, so that jobs are given back after it; else it is begun before them, and waited
    for after them. `Record` is the record of what is not back yet, by name.
    """

    quick: ClassVar[bool]
    Record: ClassVar[type[LastLines[Any]]]

    @abstractmethod
    def nothing(self) -> GivenBack:
        """Return what is said where nothing is to be given back."""

    @abstractmethod
    def look(self, control: Any, record: Any, go_on: Callable[[], bool] = lambda: True) -> GivenBack:
        """Give back what one look can of what is on record, by what the adapter offers (`control`).

        `go_on` is asked before anything is changed: a daemon that came back stops it. Raises
        ServiceUnavailableError when the cluster does not answer, OSError when the record cannot be read.
        """

    def check(self, record: Any, before: Any, now: Any) -> None:  # noqa: B027  (most have nothing to refuse)
        """Refuse settings by which what is on record would not come back.

        `before` and `now` are the tables of the last daemon and of this one (None: without one). Raises
        BadInputError.
        """


class Route(NamedTuple):
    """A question to the service, POSTed to `path` as a `query`: `answer` is the kind of what `ask` returns.

    `ask` is given the query and the present release, remembers nothing, and raises LucidError.
    """

    name: str
    path: str
    query: type[Any]
    answer: "type[Message]"
    ask: "Callable[[Any, Release], Message]"
    text: str


class LiveCapability:
    """What a part adds to the live scheduler; what a subclass leaves as it is adds nothing.

    - `name`: of the table of its settings, of its status in answers, and of what an adapter offers for it; or
      of the setting of every live scheduler that it does (`PROFILING_PARTITION`).
    - `Settings`: the frozen dataclass of the table, with a `mode`: in `control` it changes the cluster.
    - `needs`: what an adapter must be able to do for it, in words ("put nodes to sleep"); "": nothing.
    - `adapters`: for adapters that do not know of it, the place of a function of LiveSettings and the state
      folder that returns what does that.
    - `title`: what its status is of, for people.
    - `way_back`: how its changes are undone.
    """

    name: ClassVar[str]
    Settings: ClassVar[type | None] = None
    needs: ClassVar[str] = ""
    adapters: ClassVar[Mapping[str, str]] = {}
    title: ClassVar[str] = ""
    way_back: ClassVar[WayBack | None] = None

    def stage(self, control: Any, settings: "LiveSettings", folder: Path, lease: "ControlLease") -> PartStage:
        """Return what looks at the cluster, by what the adapter offers; asked for where there is a table.

        Raises OSError for the folder.
        """
        raise NotImplementedError

    def status_type(self) -> "type[Message] | None":
        """Return the kind of its status in answers; None: it has none."""
        return None

    def in_words(self, status: Any) -> str:
        """Return a status as one line for people."""
        return ""

    def metrics(self, status: Any) -> "Iterator[Metric]":
        """Yield what a status says as Prometheus' metrics."""
        yield from ()

    def routes(self) -> Sequence[Route]:
        """Return further questions that the service answers."""
        return ()

    def other_starts(self, daemon: "Daemon") -> "OtherStarts | None":
        """Return another forecast of when jobs start, beside playing forward."""
        return None


def capabilities() -> dict[str, LiveCapability]:
    """Return what the installed parts add, by name; ImportError and AttributeError as `hooks`."""
    return {capability.name: capability for _, capability in hooks("live")}


def with_way_back() -> "dict[str, WayBack]":
    """Return the ways back of the installed parts by name, the quick ones first."""
    ways = {name: each.way_back for name, each in capabilities().items() if each.way_back is not None}
    return dict(sorted(ways.items(), key=lambda item: not item[1].quick))


class LookStatus(Protocol):
    """What is known after a look: a message with `at_s`, `refused`, `deferred` and `problem`."""

    problem: str | None

    def with_changes(self, **values: Any) -> Self:
        """Return it with other values."""


NodeStatus = TypeVar("NodeStatus", bound=LookStatus)


def look_at_nodes(
    last: NodeStatus, at_s: float, look: Callable[[NodeStatus], NodeStatus], which: str
) -> NodeStatus:
    """Return what `look` makes of the last status at `at_s` (Unix s). Never raises: see `problem`.

    The queue goes on whatever becomes of a look at nodes.
    """
    before = last.with_changes(at_s=at_s, problem=None, refused={}, deferred=0)
    try:
        status = look(before)
    except (LucidError, OSError) as error:
        status = before.with_changes(problem=str(error))
    except Exception as error:
        logger.exception("no look at %s", which)
        status = before.with_changes(problem=f"Unexpected: {error!r}")
    if status.problem and status.problem != last.problem:
        logger.warning("%s: %s", which, status.problem)
    return status


def some_nodes(names: Sequence[str], *, most: int = 5) -> str:
    """Return nodes for people: `node n3`, or `12 nodes (n1, n2, n3, n4, n5 ...)`."""
    if len(names) == 1:
        return f"node {names[0]}"
    return f"{len(names)} nodes ({', '.join(names[:most])}{' ...' if len(names) > most else ''})"
