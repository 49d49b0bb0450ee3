"""When jobs beside an inference service wait for ever, while its load and the decisions go on."""

from collections.abc import Iterable, Mapping
from math import inf

from parts.lending.replay.inference_servers import InferenceServers
from simulator.scenario.agenda import Event, EventKind
from simulator.scenario.companion import CompanionEvent
from simulator.snapshot import NodePool

DAY_S = 86_400.0


class Standstill:
    """Tells that no job will start any more, once all have been submitted.

    Nothing runs, nothing but decisions is to come, and so it was for as long as two lengths of a load that
    repeats and a day, in which every number of servers that can be on loan was on loan: what the policy did
    not start then it never will.
    """

    def __init__(self, service: InferenceServers) -> None:
        self._last_change_s = -inf if service.repeats else service.times_s[-1]
        self._limit_s = DAY_S + (2 * service.length_s if service.repeats else 0.0)
        self._since_s: float | None = None

    def lasts(self, now_s: float, pools: Mapping[str, NodePool], events: Iterable[Event]) -> bool:
        """Return whether it has come to that; asked at each moment after the last submission."""
        if any(pool.running for pool in pools.values()) or any(
            kind != EventKind.WAKE and not (isinstance(subject, CompanionEvent) and subject.only_looks)
            for _, kind, _, subject, _ in events
        ):
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = max(now_s, self._last_change_s)
        return now_s > self._since_s + self._limit_s
