"""What a fleet of sleeping nodes foresees on a simulation's agenda."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Boot:
    """The end of a node's boot, whether it succeeds or not. Void unless it is the node's newest."""

    virtual_cluster: str
    node: int  # its index in the virtual cluster's pool
    number: int  # the boots of this node so far, this one included


@dataclass(frozen=True, slots=True)
class SleepCheck:
    """A bin is over: nodes may be put to sleep."""

    clock_s: float  # on the clock of the forecasts (s since 1970 where the log says when it began)


PowerEvent = Boot | SleepCheck
