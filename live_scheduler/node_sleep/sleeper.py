"""Lets idle nodes sleep and wakes them, one look at the cluster after the other.

Numbers come from a control that the simulator replays too; here they meet nodes. A cluster like Slurm wakes
nodes itself for jobs that it gives them. That is left to it: such boots count as the first of what the
control wants woken, which then adds its buffer.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from foundation.errors import LucidError
from live_scheduler.cluster_state import ClusterState
from live_scheduler.mode import Mode
from live_scheduler.node_sleep.boots import Boots
from live_scheduler.node_sleep.busy_bins import BusyBins
from live_scheduler.node_sleep.choosing import choose_to_sleep, choose_to_wake
from live_scheduler.node_sleep.node_power import (
    NodeChange,
    NodeRefusal,
    PowerControl,
    PoweredNode,
    PowerReading,
    PowerState,
    PutToSleep,
    WakeNode,
)
from live_scheduler.node_sleep.settings import NodeSleepSettings
from live_scheduler.node_sleep.shortage import boots_for_jobs, nodes_needed, nodes_short
from live_scheduler.node_sleep.sleep_view import NodeSleepView
from live_scheduler.release import LiveRelease
from simulator.node_sleep.control import (
    BufferControl,
    NodeForecaster,
    SleepControl,
    SleepObservation,
    open_control,
)

logger = logging.getLogger("lucid.live")

_NOT_AWAKE = (PowerState.ASLEEP, PowerState.FALLING_ASLEEP)


class NodeSafety(Protocol):
    """What stands between the sleeper and the nodes (`live_scheduler.safety.safety_net.SafetyNet`)."""

    def nodes_seen(self, reading: PowerReading) -> None:
        """Nodes that are awake again need not be given back. Raises ServiceUnavailableError."""

    def allow_nodes(self, changes: Sequence[NodeChange]) -> Sequence[NodeChange]:
        """Return the changes that may be asked for now, after writing down which nodes they touch.

        Raises ServiceUnavailableError when that cannot be written: nothing may be asked for then.
        """
        ...

    def nodes_asked(self, changes: Sequence[NodeChange]) -> None:
        """The changes were asked for: whatever another process wrote meanwhile, they are on record."""


@dataclass(frozen=True)
class ReleasedControl:
    """What a release says of sleeping nodes: its forecast, and its settings of the control."""

    forecaster: NodeForecaster | None = None
    settings: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, release: LiveRelease | None) -> "ReleasedControl":
        """Return what a release says."""
        return cls(release.scorers.node_demand, release.manifest.node_sleep) if release else cls()


class NodeSleeper:
    """One cluster's sleeping nodes. `view` is the last look; read it from any thread."""

    def __init__(
        self, power: PowerControl, settings: NodeSleepSettings, folder: Path, safety: NodeSafety | None
    ) -> None:
        """Nothing is read or asked yet; raises OSError for the record of busy nodes."""
        self._power, self._settings, self._safety = power, settings, safety
        self._bins = BusyBins(folder)
        self._boots = Boots(settings.rest_after_failure_s)
        self._control: SleepControl | None = None
        self._released: ReleasedControl | None = None
        self._decided_bin_s: int | None = None
        self.view = NodeSleepView(0.0, settings.mode, "")

    def look(self, cluster: ClusterState, released: ReleasedControl) -> NodeSleepView:
        """Look at the nodes once, and do what the mode allows. Never raises: `problem` says what was."""
        before = replace(self.view, at_s=cluster.at_s, problem=None, refused=(), deferred=0)
        try:
            self.view = self._look(cluster, released, before)
        except (LucidError, OSError) as error:
            self.view = replace(before, problem=str(error))
        except Exception as error:  # the queue goes on whatever becomes of nodes
            logger.exception("no look at nodes")
            self.view = replace(before, problem=f"Unexpected: {error!r}")
        if self.view.problem and self.view.problem != before.problem:
            logger.warning("sleeping nodes: %s", self.view.problem)
        return self.view

    def _look(self, cluster: ClusterState, released: ReleasedControl, before: NodeSleepView) -> NodeSleepView:
        now_s, settings = cluster.at_s, self._settings
        control, name = self._opened(released)
        reading = self._power.read()
        if self._safety is not None:
            self._safety.nodes_seen(reading)
        nodes = [node for node in reading.nodes if self._governs(node)]
        unasked = self._boots.follow(reading, now_s)
        needed = nodes_needed(nodes, cluster.jobs)
        short = nodes_short(nodes, needed)
        seen = _observe(nodes, now_s, sum(short.values()), unasked)
        self._bins.note(now_s, sum(node.counts and node.busy for node in nodes))
        wanted = self._to_wake(control, seen, nodes, short, len(unasked))
        wanted += self._to_sleep(control, seen, nodes, needed, waking=bool(wanted))
        view = replace(
            before,
            control=name,
            total=seen.total,
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
        if not wanted:
            return view
        view = replace(view, wanted=tuple(wanted), wanted_s=now_s)
        if wanted != list(before.wanted):
            logger.info("%s (%d of %d nodes busy)", view.describe_wanted(), view.busy, view.total)
        if settings.mode is not Mode.CONTROL or reading.problem:
            return view
        return self._ask(view, wanted)

    def _to_wake(
        self,
        control: SleepControl,
        seen: SleepObservation,
        nodes: Collection[PoweredNode],
        short: Mapping[str, int],
        boots_unasked: int,
    ) -> list[NodeChange]:
        resting = self._boots.resting(seen.now_s)
        count = max(0, control.wake(seen) - boots_unasked)
        to_wake = choose_to_wake(nodes, count, short, self._settings.awake_in, resting)
        again = [n.name for n in nodes if n.power is PowerState.BOOT_FAILED and n.name not in resting]
        for name in again:  # whatever becomes of it
            self._boots.rest(name, seen.now_s)
        return [WakeNode(name) for name in (*to_wake, *again)]

    def _to_sleep(
        self,
        control: SleepControl,
        seen: SleepObservation,
        nodes: Collection[PoweredNode],
        needed: Mapping[str, int],
        *,
        waking: bool,
    ) -> list[NodeChange]:
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
        return list(map(PutToSleep, choose_to_sleep(rested, count, needed, self._settings.awake_in)))

    def _ask(self, view: NodeSleepView, wanted: Sequence[NodeChange]) -> NodeSleepView:
        allowed = wanted if self._safety is None else self._safety.allow_nodes(wanted)
        refused: list[NodeRefusal] = []
        if allowed:
            refused = self._power.apply(allowed)
            if self._safety is not None:
                self._safety.nodes_asked(allowed)
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
        return replace(
            view,
            refused=tuple(refused),
            deferred=len(wanted) - len(allowed),
            put_to_sleep=view.put_to_sleep + sum(isinstance(change, PutToSleep) for change in made),
        )

    def _opened(self, released: ReleasedControl) -> tuple[SleepControl, str]:
        """Return the control in force, and what people are told of it; raises BadInputError."""
        settings = self._settings.control_settings(released.settings)
        name = settings.control
        if name == "forecast" and (released.forecaster is None or self._settings.partitions):
            settings = replace(settings, control="buffer")
            why = "is of all partitions" if released.forecaster else "is not in the release"
            name = f"buffer (the forecast of nodes {why})"
        if self._control is None or released != self._released:
            before = self._control
            quiet_until_s = before.quiet_until_s if isinstance(before, BufferControl) else float("-inf")
            self._control = open_control(settings, released.forecaster, quiet_until_s=quiet_until_s)
            self._released = released
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
