"""Lets idle nodes sleep and wakes them, one look at the cluster after the other.

Numbers come from a control that the simulator replays too; here they meet nodes. A cluster like Slurm wakes
nodes itself for jobs that it gives them. That is left to it: such boots count as the first of what the
control wants woken, which then adds its buffer.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from live_scheduler.capability import look_at_nodes
from live_scheduler.cluster_state import ClusterState, PoweredNode, PowerState
from live_scheduler.live_settings import Mode
from live_scheduler.memory.records import SeenBins
from live_scheduler.release import LiveRelease, Pinned
from live_scheduler.safety.control_lease import ControlLease
from live_scheduler.safety.rate_limit import TokenBucket
from parts.node_sleep.live.choosing import (
    boots_for_jobs,
    choose_to_sleep,
    choose_to_wake,
    nodes_needed,
    nodes_short,
)
from parts.node_sleep.live.node_power import NodeChange, PowerControl, PowerReading, PutToSleep, WakeNode
from parts.node_sleep.live.settings import NodeSleepSettings
from parts.node_sleep.live.sleep_status import SleepingNodes
from parts.node_sleep.live.waking import TouchedNodes
from parts.node_sleep.replay.control import (
    BIN_S,
    BufferControl,
    NodeForecaster,
    SleepControl,
    SleepObservation,
    open_control,
)


class Boots:
    """What became of all boots, also those not asked for here. A node that failed rests for `rest_s`."""

    def __init__(self, rest_s: float) -> None:
        """Nothing is known yet."""
        self.begun = 0
        self.failed = 0
        self._rest_s = rest_s
        self._powers: dict[str, PowerState] | None = None
        self._asked: set[str] = set()
        self._rests_until_s: dict[str, float] = {}

    def follow(self, reading: PowerReading, now_s: float) -> set[str]:
        """Take in a reading; return the nodes that boot for jobs now, without having been asked for here.

        What boots or has failed at the first reading is taken as it is.
        """
        before = self._powers
        powers = {node.name: node.power for node in reading.nodes}
        self._powers = powers
        unasked: set[str] = set()
        for name, power in powers.items():
            earlier = power if before is None else before.get(name)
            if power is PowerState.BOOT_FAILED and (before is None or earlier is not power):
                self.failed += before is not None
                self.rest(name, now_s)
            elif power is PowerState.BOOTING and earlier is not power:
                self.begun += 1
                if name not in self._asked:
                    unasked.add(name)
        not_begun = (PowerState.ASLEEP, PowerState.BOOT_FAILED)
        self._asked = {name for name in self._asked if powers.get(name) in not_begun}
        return unasked

    def asked_for(self, name: str) -> None:
        """A node was told to boot: its boot is no surprise."""
        self._asked.add(name)

    def rest(self, name: str, now_s: float) -> None:
        """Leave a node alone from now on."""
        self._rests_until_s[name] = now_s + self._rest_s

    def resting(self, now_s: float) -> set[str]:
        """Return the nodes that are left alone now."""
        self._rests_until_s = {name: until for name, until in self._rests_until_s.items() if until > now_s}
        return set(self._rests_until_s)


logger = logging.getLogger("lucid.live")

BUSY_NODES_FILE = "busy_nodes.jsonl"

_NOT_AWAKE = (PowerState.ASLEEP, PowerState.FALLING_ASLEEP)


class NodeSleeper:
    """One cluster's sleeping nodes. `view` is the last look (None: none yet); read it from any thread."""

    def __init__(
        self, power: PowerControl, settings: NodeSleepSettings, folder: Path, lease: ControlLease
    ) -> None:
        """Nothing is read or asked yet; raises OSError for the record of busy nodes."""
        self._power, self._settings, self._lease = power, settings, lease
        self._rate = TokenBucket(settings.nodes_per_minute, settings.nodes_per_minute)
        self._bins = SeenBins(folder / BUSY_NODES_FILE, "busy", bin_s=BIN_S)
        self._boots = Boots(settings.rest_after_failure_s)
        self._control: SleepControl | None = None
        self._pinned: Pinned[NodeForecaster] | None = None
        self._decided_bin_s: int | None = None
        self._busy: frozenset[str] | None = None  # at the last look
        self.view: SleepingNodes | None = None

    def look(self, cluster: ClusterState, pinned: Pinned[NodeForecaster]) -> SleepingNodes:
        """Look at the nodes once, and do what the mode allows. Never raises: see `problem`.

        `pinned` is what the release says of sleeping nodes.
        """
        last = self.view or SleepingNodes(mode=self._settings.mode.value, control="", at_s=cluster.at_s)
        self.view = look_at_nodes(
            last, cluster.at_s, lambda before: self._look(cluster, pinned, before), "sleeping nodes"
        )
        return self.view

    def after_decision(self, cluster: ClusterState, release: LiveRelease) -> None:
        """Look at the nodes by what a release says of them; never raises."""
        self.look(cluster, release.pinned("node_demand", "node_sleep"))

    def _look(
        self, cluster: ClusterState, pinned: Pinned[NodeForecaster], before: SleepingNodes
    ) -> SleepingNodes:
        now_s, settings = cluster.at_s, self._settings
        control, name = self._opened(pinned)
        reading = self._power.read().foreseen()
        with self._lease.keeping():
            touched = self._lease.record(TouchedNodes)
            touched.reload()
            touched.cross_off_awake(reading)
        nodes = [node for node in reading.nodes if self._governs(node)]
        unasked = self._boots.follow(reading, now_s)
        needed = nodes_needed(nodes, cluster.jobs)
        short = nodes_short(nodes, needed, self._just_given(nodes))
        seen = _observe(nodes, now_s, sum(short.values()), unasked)
        self._bins.note(now_s, sum(node.counts and node.busy for node in nodes))
        to_wake = self._to_wake(control, seen, nodes, short, len(unasked))
        to_sleep = self._to_sleep(control, seen, nodes, needed, waking=bool(to_wake))
        view = before.with_changes(
            control=name,
            nodes=seen.total,
            awake=seen.awake,
            booting=sum(node.counts and node.power is PowerState.BOOTING for node in nodes),
            asleep=sum(node.counts and node.power in _NOT_AWAKE for node in nodes),
            busy=sum(node.counts and node.busy for node in nodes),
            short=seen.short,
            failed=tuple(node.name for node in nodes if node.power is PowerState.BOOT_FAILED),
            wake_ups=self._boots.begun,
            failed_boots=self._boots.failed,
            problem=reading.problem or None,
        )
        if not to_wake and not to_sleep:
            return view
        view = view.with_changes(to_wake=tuple(to_wake), to_sleep=tuple(to_sleep), decided_s=now_s)
        if (view.to_wake, view.to_sleep) != (before.to_wake, before.to_sleep):
            logger.info("%s (%d of %d nodes busy)", view.describe_wanted(), view.busy, view.nodes)
        if settings.mode is not Mode.CONTROL or reading.problem:
            return view
        return self._ask(view, [*map(WakeNode, to_wake), *map(PutToSleep, to_sleep)])

    def _just_given(self, nodes: Collection[PoweredNode]) -> frozenset[str]:
        """Return the nodes that have got jobs since the last look; none at the first."""
        before, self._busy = self._busy, frozenset(node.name for node in nodes if node.busy)
        return self._busy - before if before is not None else frozenset()

    def _to_wake(
        self,
        control: SleepControl,
        seen: SleepObservation,
        nodes: Collection[PoweredNode],
        short: Mapping[str, int],
        boots_unasked: int,
    ) -> list[str]:
        resting = self._boots.resting(seen.now_s)
        count = max(0, control.wake(seen) - boots_unasked)
        to_wake = choose_to_wake(nodes, count, short, self._settings.awake_in, resting)
        again = [n.name for n in nodes if n.power is PowerState.BOOT_FAILED and n.name not in resting]
        for name in again:  # whatever becomes of it
            self._boots.rest(name, seen.now_s)
        return [*to_wake, *again]

    def _to_sleep(
        self,
        control: SleepControl,
        seen: SleepObservation,
        nodes: Collection[PoweredNode],
        needed: Mapping[str, int],
        *,
        waking: bool,
    ) -> list[str]:
        newest_s = self._bins.newest_start_s
        if newest_s == self._decided_bin_s:
            return []
        self._decided_bin_s = newest_s
        # A bin without counts is no reason to let nodes sleep.
        if waking or self._bins.newest_is_held:
            return []
        resting = self._boots.resting(seen.now_s)
        rested = [node for node in nodes if node.name not in resting]
        count = control.sleep(seen, self._bins.values())
        return choose_to_sleep(rested, count, needed, self._settings.awake_in)

    def _ask(self, view: SleepingNodes, wanted: Sequence[NodeChange]) -> SleepingNodes:
        allowed = self._rate.take_first(wanted)
        self._leave_word(allowed)
        refused = self._power.apply(allowed) if allowed else []
        # The dead man's switch may have taken them off the record meanwhile, if this process hung.
        self._leave_word(allowed)
        for refusal in refused:
            self._boots.rest(refusal.change.node, view.at_s)
            logger.warning(
                "refused: %s of %s: %s", type(refusal.change).__name__, refusal.change.node, refusal.why
            )
        not_made = {refusal.change.node for refusal in refused}
        made = [change for change in allowed if change.node not in not_made]
        for change in made:
            if isinstance(change, WakeNode):
                self._boots.asked_for(change.node)
        return view.with_changes(
            refused={refusal.change.node: refusal.why for refusal in refused},
            deferred=len(wanted) - len(allowed),
            put_to_sleep=view.put_to_sleep + sum(isinstance(change, PutToSleep) for change in made),
        )

    def _leave_word(self, changes: Sequence[NodeChange]) -> None:
        with self._lease.before_change():
            self._lease.record(TouchedNodes).note(changes)

    def _opened(self, pinned: Pinned[NodeForecaster]) -> tuple[SleepControl, str]:
        """Return the control in force, and what people are told of it; raises BadInputError."""
        settings = self._settings.control_settings(pinned.settings)
        name = settings.control
        if name == "forecast" and (pinned.forecaster is None or self._settings.partitions):
            settings = replace(settings, control="buffer")
            why = "is of all partitions" if pinned.forecaster else "is not in the release"
            name = f"buffer (the forecast of nodes {why})"
        if self._control is None or pinned != self._pinned:
            before = self._control
            quiet_until_s = before.quiet_until_s if isinstance(before, BufferControl) else float("-inf")
            self._control = open_control(settings, pinned.forecaster, quiet_until_s=quiet_until_s)
            self._pinned = pinned
        return self._control, name

    def _governs(self, node: PoweredNode) -> bool:
        partitions = self._settings.partitions
        return not partitions or bool(set(partitions) & set(node.partitions))


def _observe(
    nodes: Collection[PoweredNode], now_s: float, lacking: int, unasked: Collection[str]
) -> SleepObservation:
    """Return what a control sees. For it, nodes that the cluster has just woken for jobs sleep yet."""
    counted = [node for node in nodes if node.counts]
    awake = [node for node in counted if node.power is PowerState.AWAKE]
    booting = [n for n in counted if n.power is PowerState.BOOTING and n.name not in unasked]
    return SleepObservation(
        now_s=now_s,
        total=len(counted),
        awake=len(awake),
        booting=len(booting),
        busy=sum(node.busy for node in awake),
        short=lacking + boots_for_jobs(counted),
    )
