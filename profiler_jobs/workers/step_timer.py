"""When training steps are complete: at once on a processor, by events on a GPU, which only queues them.

Waiting for the device after every step would slow it down, so on a GPU the wait is for the step before the
last ones: the queue stays short and full, and the completion time is the device's own, moved to the host's
clock.
"""

import time
from collections import deque
from typing import Any, Protocol

STEPS_IN_FLIGHT = 2
_ANCHOR_TRIES = 5


class StepTimer(Protocol):
    """Keeps the completion times of one stretch, in seconds on `time.monotonic()`'s clock."""

    begin_s: float
    completions_s: list[float]

    def start(self) -> None:
        """Begin a stretch, on an idle device."""

    def step_done(self) -> None:
        """Take note that `step()` has returned; `completions_s` may grow."""

    def finish(self) -> None:
        """Wait until the device is idle for this process and all completions are known."""


class HostTimer:
    """Steps are complete when they return."""

    def __init__(self) -> None:
        self.begin_s = 0.0
        self.completions_s: list[float] = []

    def start(self) -> None:
        """Begin a stretch."""
        self.begin_s = time.monotonic()
        self.completions_s = []

    def step_done(self) -> None:
        """Note the time."""
        self.completions_s.append(time.monotonic())

    def finish(self) -> None:
        """Nothing is left to wait for."""


class CudaTimer:
    """Steps are complete when the event recorded behind them is.

    An event's time is read against a reference event of the stretch, whose time on the host's clock is known
    to the length of the shortest of a few round trips to the idle device.
    """

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self.begin_s = 0.0
        self.completions_s: list[float] = []
        self._reference: Any = None
        self._reference_s = 0.0
        self._queued: deque[Any] = deque()
        self._spare: list[Any] = []

    def start(self) -> None:
        """Wait for the device, find the reference, begin a stretch."""
        self._cuda.synchronize()
        shortest_s = float("inf")
        for _ in range(_ANCHOR_TRIES):
            event = self._cuda.Event(enable_timing=True)
            before_s = time.monotonic()
            event.record()
            event.synchronize()
            after_s = time.monotonic()
            if after_s - before_s < shortest_s:
                shortest_s = after_s - before_s
                self._reference, self._reference_s = event, (before_s + after_s) / 2.0
        self.begin_s = time.monotonic()
        self.completions_s = []

    def step_done(self) -> None:
        """Put an event behind the step; wait only for the one that is STEPS_IN_FLIGHT steps older."""
        event = self._spare.pop() if self._spare else self._cuda.Event(enable_timing=True)
        event.record()
        self._queued.append(event)
        while len(self._queued) > STEPS_IN_FLIGHT or (self._queued and self._queued[0].query()):
            self._complete_oldest()

    def finish(self) -> None:
        """Wait for all."""
        while self._queued:
            self._complete_oldest()
        self._cuda.synchronize()

    def _complete_oldest(self) -> None:
        event = self._queued.popleft()
        event.synchronize()
        completed_s = self._reference_s + self._reference.elapsed_time(event) / 1e3
        # The reference is known to some microseconds only: keep the order.
        floor_s = self.completions_s[-1] if self.completions_s else self.begin_s
        self.completions_s.append(max(floor_s, completed_s))
        self._spare.append(event)
