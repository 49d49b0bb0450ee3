"""Puts idle nodes of a simulated cluster to sleep and wakes them, as a control says (Helios, section 4.3).

Asked at the end of every moment, when the policy has decided: how many nodes is the control's, which ones is
said here. A virtual cluster is woken the nodes that its own jobs need, whatever the control says; what the
control wakes beyond that goes, one by one, to the virtual cluster with the fewest spare nodes. Nodes are put
to sleep, one by one, where most idle nodes are that no waiting job needs. Of a virtual cluster the highest
indices sleep and the lowest wake, since jobs are placed on the lowest. Nodes that a policy sets aside or has
lent stay awake, and servers on loan from inference are counted nowhere. Ties go to the virtual cluster that
comes first in the cluster.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from math import isfinite
from random import Random
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from parts.node_sleep.replay.control import BIN_S, NodeForecaster, SleepObservation, open_control
from parts.node_sleep.replay.power_history import NodeStates, PowerHistory, PowerTotals, power_figures
from parts.node_sleep.replay.settings import SleepSettings
from parts.node_sleep.replay.virtual_cluster_nodes import VirtualClusterNodes
from simulator.cluster.placement import Placement
from simulator.job_view import JobView
from simulator.recorder import StopReason
from simulator.scenario.agenda import Agenda, EventKind
from simulator.scenario.companion import Attached, CompanionEvent
from simulator.snapshot import NodePool

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


@dataclass(frozen=True)
class ReplayedSleep:
    """How the nodes of a simulated cluster sleep, and how their boots go.

    `settings` name the control and the time of a boot. A share of `boot_failure_share` of all boots fails,
    drawn with `seed`: the node is then booted again, which takes as long once more. In each virtual cluster
    `awake_per_virtual_cluster` nodes never sleep.
    """

    settings: SleepSettings
    _: KW_ONLY
    forecaster: NodeForecaster | None = None  # for the control "forecast"
    awake_per_virtual_cluster: int = 0
    boot_failure_share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        awake = self.awake_per_virtual_cluster
        if isinstance(awake, bool) or not isinstance(awake, int) or awake < 0:
            raise BadInputError(
                f"awake_per_virtual_cluster is {awake!r}.", remedy="Use a whole number of nodes, 0 or more."
            )
        share = self.boot_failure_share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise BadInputError(
                f"boot_failure_share is {share!r}.", remedy="Use a share of boots, from 0 to below 1."
            )
        if not isfinite(self.settings.boot_s):
            raise BadInputError(f"boot_s is {self.settings.boot_s!r}.", remedy="Use 0 or more seconds.")
        open_control(self.settings, self.forecaster)


@dataclass
class FleetMemory:
    """What a fleet remembers that its nodes do not show; a simulation that goes on from another takes it.

    `clock_s` is the clock's time at second 0, `peak` the highest number of busy nodes in the present bin,
    `busy` that of the bins before, `boots` how often a node was booted; `judged` are the totals when the last
    job was submitted, at `judged_until_s`.
    """

    clock_s: float
    peak: int = 0
    busy: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    boots: dict[tuple[str, int], int] = field(default_factory=dict)
    quiet_until_s: float = float("-inf")
    totals: PowerTotals = field(default_factory=PowerTotals)
    judged: PowerTotals | None = None
    judged_until_s: float = 0.0

    def copy(self) -> "FleetMemory":
        """Return a copy that shares nothing that changes."""
        return replace(self, busy=self.busy.copy(), boots=dict(self.boots), totals=self.totals.copy())


class SleepingFleet(Attached):
    """The nodes of a simulation's virtual clusters; as a recorder it sees jobs move."""

    def __init__(
        self,
        sleep: ReplayedSleep,
        virtual_clusters: Iterable[VirtualClusterNodes],
        agenda: Agenda,
        now_s: float,
        memory: FleetMemory,
        counted_from_s: float = 0.0,
    ) -> None:
        """Every virtual cluster has its nodes; `begin` when the agenda has all that is foreseen."""
        self._sleep = sleep
        self._memory = memory = memory.copy()
        self._control = open_control(sleep.settings, sleep.forecaster, quiet_until_s=memory.quiet_until_s)
        self._clusters = list(virtual_clusters)
        self._by_name = {cluster.name: cluster for cluster in self._clusters}
        self._by_pool = {pool: cluster for cluster in self._clusters for pool in cluster.pools}
        self._agenda = agenda
        self._now_s = now_s
        self._bins = _Bins(memory.busy)
        self._check: SleepCheck | None = None  # that is due at this moment
        self._touched: dict[VirtualClusterNodes, None] = {}
        self.history = PowerHistory(now_s, memory.totals)
        self._counted_from_s = counted_from_s
        self._warming_up = counted_from_s > now_s

    def begin(self) -> None:
        """Foresee the first check, and those ends of boots that are not foreseen yet."""
        events = [event[3] for event in self._agenda.events]
        for cluster in self._clusters:
            cluster.count()
        if not any(isinstance(event, SleepCheck) for event in events):
            self._touched = dict.fromkeys(self._clusters)
            self._foresee_check()
        foreseen = {(event.virtual_cluster, event.node) for event in events if isinstance(event, Boot)}
        for cluster in self._clusters:
            for node in sorted(cluster.booting):
                if (cluster.name, node) not in foreseen:
                    self._foresee_boot(cluster, node)
        self._note(self._seen(self._memory.clock_s + self._now_s))

    def memory(self) -> FleetMemory:
        """Return what another fleet goes on with."""
        self.history.pass_time(self._now_s)
        quiet_until_s = getattr(self._control, "quiet_until_s", float("-inf"))
        return replace(
            self._memory.copy(),
            totals=self.history.totals.copy(),
            busy=self._bins.values.copy(),
            quiet_until_s=quiet_until_s,
        )

    # -- what the simulation tells ---------------------------------------------------------------------------

    def queued(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """A job may need nodes."""
        self._touch(pool)

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """Nodes are busy."""
        self._touch(pool)

    def resized(self, now_s: float, job: JobView, pool: NodePool, before: Placement) -> None:
        """More or fewer nodes are busy."""
        self._touch(pool)

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """Nodes may be idle."""
        self._touch(pool)

    def decided(self, now_s: float, pools: Collection[NodePool]) -> None:
        """Jobs that still wait may need nodes."""
        for pool in pools:
            self._touch(pool)

    def _touch(self, pool: NodePool) -> None:
        cluster = self._by_pool.get(pool)
        if cluster is not None:
            self._touched[cluster] = None

    def changed(self, pools: Collection[NodePool]) -> None:
        """Nodes of these pools came, left, failed or were repaired."""
        for pool in pools:
            cluster = self._by_pool.get(pool)
            if cluster is not None:
                cluster.follow()
                self._touched[cluster] = None

    def happen(self, event: PowerEvent, now_s: float) -> Collection[NodePool]:
        """Let something foreseen happen; return the pools that gained a node."""
        self._now_s = now_s
        if isinstance(event, SleepCheck):
            self._check = event
            return ()
        cluster = self._by_name[event.virtual_cluster]
        place = (event.virtual_cluster, event.node)
        if event.node not in cluster.booting or event.number != self._memory.boots[place]:
            return ()
        if self._fails(event):
            self.history.totals.boots_failed += 1
            self._foresee_boot(cluster, event.node)
            return ()
        cluster.end_boot(event.node)
        self._touched[cluster] = None
        return cluster.pools

    def _fails(self, boot: Boot) -> bool:
        """Draw from a stream of the boot's own: another boot more or less changes no other."""
        share = self._sleep.boot_failure_share
        if not share:
            return False
        name = f"{self._sleep.seed} {boot.virtual_cluster} {boot.node} {boot.number}"
        return Random(name).random() < share  # noqa: S311  (not for secrets)

    # -- deciding --------------------------------------------------------------------------------------------

    def look(self, now_s: float, *, more_jobs: bool) -> bool:
        """Wake and put to sleep, now that a moment is over; say whether a node boots at once.

        `more_jobs`: some are yet to be submitted. Without, and with nothing foreseen, there is no further
        check.
        """
        self._now_s = now_s
        if self._warming_up and now_s >= self._counted_from_s:
            self._warming_up = False
            self.history.count_from(self._counted_from_s)
        if more_jobs:
            self._memory.judged = None
        elif self._memory.judged is None:
            self.history.pass_time(now_s)
            self._memory.judged, self._memory.judged_until_s = self.history.totals.copy(), now_s
        check, self._check = self._check, None
        if check is not None:
            self._bins.add(self._memory.peak)
            self._memory.peak = 0
        elif not self._touched:
            return False
        for cluster in self._clusters:
            if cluster in self._touched or cluster.gpus.total_gpus != cluster.counted_gpus:
                cluster.count()
                self.history.totals.waiting_jobs |= cluster.waiting
        self._touched.clear()
        clock_s = self._memory.clock_s + now_s if check is None else check.clock_s
        seen = self._seen(clock_s)
        self._memory.peak = max(self._memory.peak, seen.busy)
        if seen.asleep:
            self._wake(seen)
            seen = self._seen(clock_s)
        if check is not None:
            nodes = self._control.sleep(seen, self._bins.values)
            if nodes > 0:
                self._put_to_sleep(nodes)
                seen = self._seen(clock_s)
            if self._agenda.events or more_jobs:
                self._foresee_check()
        self._note(seen)
        events = self._agenda.events
        return bool(events) and events[0][0] == now_s

    def _seen(self, clock_s: float) -> SleepObservation:
        awake = booting = asleep = idle = short = 0
        for cluster in self._clusters:
            awake += cluster.awake
            idle += cluster.idle
            short += cluster.short
            booting += len(cluster.booting)
            asleep += len(cluster.asleep)
        return SleepObservation(
            now_s=clock_s,
            total=awake + booting + asleep,
            awake=awake,
            booting=booting,
            busy=awake - idle,
            short=short,
        )

    def _note(self, seen: SleepObservation) -> None:
        self.history.note(self._now_s, seen.awake, seen.booting, seen.asleep, seen.busy, seen.short)

    def _wake(self, seen: SleepObservation) -> None:
        """Wake what virtual clusters are short of, and what else the control wakes where spares are few."""
        nodes = 0
        for cluster in self._clusters:
            for _ in range(cluster.short - len(cluster.booting)):
                self._begin_boot(cluster)
                nodes += 1
        for _ in range(self._control.wake(seen) - nodes):
            sleepers = [cluster for cluster in self._clusters if cluster.asleep]
            if not sleepers:
                break
            self._begin_boot(min(sleepers, key=lambda cluster: cluster.spare))
            nodes += 1
        if nodes:
            self.history.totals.wake_ups += 1
            self.history.totals.woken_nodes += nodes

    def _put_to_sleep(self, nodes: int) -> None:
        least = self._sleep.awake_per_virtual_cluster
        idle = {cluster: cluster.may_sleep(least) for cluster in self._clusters}
        for _ in range(nodes):
            cluster = max(self._clusters, key=lambda cluster: len(idle[cluster]))
            if not idle[cluster]:
                break
            cluster.put_to_sleep(idle[cluster].pop())
        for cluster in self._clusters:
            cluster.count()

    # -- what is foreseen ------------------------------------------------------------------------------------

    def _begin_boot(self, cluster: VirtualClusterNodes) -> None:
        node = min(cluster.asleep)
        cluster.begin_boot(node)
        self._foresee_boot(cluster, node)

    def _foresee_boot(self, cluster: VirtualClusterNodes, node: int) -> None:
        boots = self._memory.boots
        boots[cluster.name, node] = number = boots.get((cluster.name, node), 0) + 1
        at_s = self._now_s + self._sleep.settings.boot_s
        self._agenda.push(at_s, EventKind.CLUSTER, Boot(cluster.name, node, number))

    def _foresee_check(self) -> None:
        """At the end of the present bin; bins are whole on the clock."""
        bins = (self._memory.clock_s + self._now_s) // BIN_S + 1
        clock_s = bins * BIN_S
        at_s = clock_s - self._memory.clock_s
        if at_s <= self._now_s:  # by rounding
            at_s = (clock_s := clock_s + BIN_S) - self._memory.clock_s
        self._agenda.push(at_s, EventKind.CLUSTER, SleepCheck(clock_s))

    # -- the end ---------------------------------------------------------------------------------------------

    def kept(self) -> NodeStates:
        """Return what the nodes were over time, since this fleet began."""
        return self.history.states()

    def summary(self, end_s: float, mean_gpus: float, jobs: Sequence[JobView]) -> dict[str, Any]:
        """Return figures of the time in which jobs were submitted, from second 0 or the end of warm-up on.

        What follows the last submission is no cluster's life: it would count as sleep. If all jobs came at
        second 0, it is all the time until now.
        """
        memory = self._memory
        from_s = self._counted_from_s
        if memory.judged is not None and memory.judged_until_s > from_s:
            return power_figures(memory.judged, memory.judged_until_s - from_s)
        self.history.pass_time(self._now_s)
        return power_figures(self.history.totals, self._now_s - from_s)


class _Bins:
    """Finished bins, oldest first; one more costs the same however many there are."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self._count = len(values)
        self._room = np.empty(max(1_024, 2 * self._count))
        self._room[: self._count] = values

    @property
    def values(self) -> NDArray[np.float64]:
        """All of them, only to be read."""
        return self._room[: self._count]

    def add(self, value: float) -> None:
        """Add the newest."""
        if self._count == len(self._room):
            self._room = np.concatenate([self._room, np.empty(self._count)])
        self._room[self._count] = value
        self._count += 1
