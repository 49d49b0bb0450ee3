"""Clocks of a pool: how long a gang of each size has been kept out of it, by cause."""

from enum import IntEnum
from typing import Literal

from simulator.cluster.placement import Demand, FreeGpus
from simulator.mechanisms.ranked_blocks import RankedBlocks
from simulator.recorder import StopReason


class WaitCause(IntEnum):
    """What keeps a job waiting at a moment; the first that holds."""

    GPUS = 0  # fewer GPUs are free in its pool than it needs
    PLACEMENT = 1  # enough are free, but scattered over nodes: no consolidated gang placement
    TURN = 2  # a placement existed when the policy last decided, and others came first in its order
    ROUND = 3  # a placement exists, and the policy has not decided since it, or the job, came
    POLICY = 4  # a placement existed, no job was ahead in the queue, and the policy did not use it
    PROFILER = 5  # it waits in a partition that the policy set aside, such as Lucid's profiler


CAUSE_COLUMNS = {
    WaitCause.GPUS: "waited_for_gpus_s",
    WaitCause.PLACEMENT: "waited_for_placement_s",
    WaitCause.TURN: "waited_for_turn_s",
    WaitCause.ROUND: "waited_for_round_s",
    WaitCause.POLICY: "waited_for_policy_s",
    WaitCause.PROFILER: "waited_for_profiler_s",
}

# What a job waits for, in a word or two.
CAUSE_NAMES = {
    WaitCause.GPUS: "free GPUs",
    WaitCause.PLACEMENT: "a placement",
    WaitCause.TURN: "its turn",
    WaitCause.ROUND: "a round",
    WaitCause.POLICY: "the policy",
    WaitCause.PROFILER: "the profiler",
}


Freed = StopReason | Literal["resized"]  # why GPUs came free

GPUS, PLACEMENT, TURN, ROUND = 0, 1, 2, 3
_CLOCKS = 4  # the causes that depend on the demand alone


class DemandClock:
    """How long a gang of one size has been kept out of one pool, by cause, since the clocks began."""

    __slots__ = ("cause", "since_s", "totals", "waiting")

    def __init__(self) -> None:
        self.cause = GPUS
        self.since_s = 0.0
        self.totals = [0.0] * _CLOCKS
        self.waiting = 0

    def switch(self, cause: int, at_s: float) -> None:
        """Let another cause count from now on."""
        self.totals[self.cause] += at_s - self.since_s
        self.since_s = at_s
        self.cause = cause

    def read(self, now_s: float) -> list[float]:
        """Return how long each cause has kept it out."""
        totals = self.totals[:]
        totals[self.cause] += now_s - self.since_s
        return totals


class WaitSpell:
    """One spell of waiting."""

    __slots__ = ("base", "demand", "entry", "for_round_s", "held_s", "since_s", "undecided")

    def __init__(self, since_s: float, demand: DemandClock | None, entry: object) -> None:
        self.since_s = since_s
        self.for_round_s = 0.0  # accounted so far
        self.demand = demand  # None: in a partition
        self.base = demand.read(since_s) if demand is not None else []
        self.held_s = 0.0  # of the time for TURN: no job was ahead
        self.undecided = True  # the policy has not decided since it began
        self.entry = entry


class WaitRecord:
    """What is known of one job's waits."""

    __slots__ = (
        "at_home",
        "causes",
        "free_gpus",
        "gpus_ahead",
        "jobs_ahead",
        "left_home",
        "left_s",
        "released_by",
        "released_reason",
        "waits",
    )

    def __init__(self) -> None:
        self.causes = [0.0] * len(WaitCause)
        self.waits = 0
        self.at_home = False
        self.jobs_ahead = 0
        self.gpus_ahead = 0
        self.free_gpus = 0
        # When it first left the queue of its virtual cluster; of a partition, if it never came so far.
        self.left_s: float | None = None
        self.left_home = False
        self.released_by: str | None = None
        self.released_reason: str | None = None


class PoolClocks:
    """The clocks of one pool, and what has happened there since the policy last decided."""

    __slots__ = ("demands", "fresh", "head", "head_since_s", "order", "stale_s", "stops")

    def __init__(self) -> None:
        self.demands: dict[Demand, DemandClock] = {}
        self.order = RankedBlocks()
        self.fresh: list[tuple[WaitRecord, WaitSpell]] = []
        self.stops: list[tuple[str, Freed, frozenset[int]]] = []
        self.stale_s: float | None = None  # since when the free GPUs differ from what the clocks know
        self.head: WaitSpell | None = None  # first in the queue, could be placed, and was not
        self.head_since_s = 0.0

    def catch_up(self, now_s: float, free: FreeGpus) -> None:
        """Let the clocks know what has been free since the last change, if no decision was made then."""
        if self.stale_s is not None and self.stale_s < now_s:
            self._classify(free, self.stale_s, decided=False)
            if self.head is not None and self.head.demand is not None and self.head.demand.cause != TURN:
                self._settle_head(self.stale_s)
            self.stale_s = None

    def decided(self, now_s: float, free: FreeGpus) -> None:
        """Set the clocks by what the policy left free."""
        self._settle_head(now_s)
        self._classify(free, now_s, decided=True)
        self.stale_s = None
        self.fresh.clear()
        self.stops.clear()

    def lead(self, wait: WaitSpell, now_s: float) -> None:
        """Note that a job that could be placed is first, and was not."""
        if wait.demand is not None and wait.demand.cause == TURN:
            self.head = wait
            self.head_since_s = now_s

    def forget(self, wait: WaitSpell, now_s: float) -> None:
        """A spell of waiting is over."""
        if wait is self.head:
            self._settle_head(now_s)

    def _settle_head(self, now_s: float) -> None:
        if self.head is not None:
            self.head.held_s += now_s - self.head_since_s
            self.head = None

    def _classify(self, free: FreeGpus, at_s: float, *, decided: bool) -> None:
        total = free.total
        for (gpus, nodes), demand in self.demands.items():
            if not demand.waiting:
                continue
            if gpus > total:
                cause = GPUS
            elif free.find(gpus, nodes) is None:
                cause = PLACEMENT
            elif decided or demand.cause == TURN:
                cause = TURN
            else:
                cause = ROUND
            if cause != demand.cause:
                demand.switch(cause, at_s)
