"""What a fleet of sleeping nodes foresees on a simulation's agenda."""

from dataclasses import dataclass
from typing import ClassVar

from simulator.scenario.companion import CompanionEvent

KEY = "node_sleep"  # of the companion


@dataclass(frozen=True, slots=True)
class Boot(CompanionEvent):
    """The end of a node's boot, whether it succeeds or not. Void unless it is the node's newest."""

    companion: ClassVar[str] = KEY
    virtual_cluster: str
    node: int  # its index in the virtual cluster's pool
    number: int  # the boots of this node so far, this one included


@dataclass(frozen=True, slots=True)
class SleepCheck(CompanionEvent):
    """A bin is over: nodes may be put to sleep."""

    companion: ClassVar[str] = KEY
    only_looks: ClassVar[bool] = True
    clock_s: float  # on the clock of the forecasts (s since 1970 where the log says when it began)


PowerEvent = Boot | SleepCheck
