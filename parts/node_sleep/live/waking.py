"""The way back of nodes: every node that this product has put to sleep is woken.

It goes by the record of touched nodes, which is written before the cluster is asked:

    STATE/touched_nodes.jsonl    {"node": "n3", "how": "put to sleep"}
                                 {"node": "n3", "how": "woken"}
                                 {"node": "n3", "how": ""}                     it is awake again

so it is there after a `kill -9` of the daemon at any point too. A node that was to be put to sleep and was
not is awake, and is crossed off; one that sleeps by the cluster's own word is not on record. Look by look a
node that sleeps is asked to wake, one that boots or still falls asleep is waited for, one that is awake is
crossed off. A cluster may drop a word that comes too early, so it is said again until the node does what it
says. A node whose boot fails after it was asked is crossed off and named: the cluster counts it as down, and
its people have to look at it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from live_scheduler.capability import some_nodes
from live_scheduler.cluster_state import PowerState
from live_scheduler.memory.records import LastLines
from parts.node_sleep.live.node_power import NodeChange, PowerControl, PowerReading, PutToSleep, WakeNode

TOUCHED_NODES_FILE = "touched_nodes.jsonl"


class NodeTouch(StrEnum):
    """What this product asked of a node last."""

    PUT_TO_SLEEP = "put to sleep"
    WOKEN = "woken"


class TouchedNodes(LastLines[NodeTouch]):
    """The touched nodes, in the order of their first touch."""

    file_name = TOUCHED_NODES_FILE

    def note(self, changes: Iterable[NodeChange]) -> None:
        """Write down changes before they are asked for. Raises OSError.

        A node that another put to sleep need not be given back once it was woken here.
        """
        self.refresh()
        self.write(
            {
                change.node: NodeTouch.PUT_TO_SLEEP if isinstance(change, PutToSleep) else NodeTouch.WOKEN
                for change in changes
                if isinstance(change, PutToSleep) or change.node in self
            }
        )

    def cross_off_awake(self, reading: PowerReading) -> None:
        """Cross off the nodes that are awake again, or gone. Raises OSError."""
        nodes = reading.by_name
        self.cross_off(
            name for name in list(self) if name not in nodes or nodes[name].power is PowerState.AWAKE
        )

    def to_fields(self, key: str, value: NodeTouch | None) -> Mapping[str, object]:
        """Return a line as the module shows them."""
        return {"node": key, "how": value or ""}

    def from_fields(self, fields: Mapping[str, Any]) -> tuple[str, NodeTouch | None]:
        """Read such a line."""
        return str(fields["node"]), NodeTouch(fields["how"]) if fields["how"] else None


@dataclass(frozen=True)
class NodesBack:
    """What became of the nodes that were put to sleep.

    `awake` are awake again, `failed` did not boot or are down, `coming` boot or are about to, and `refused`
    are asked again, with the cluster's words for it.
    """

    awake: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    coming: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def complete(self) -> bool:
        """Whether no node is left that was put to sleep."""
        return not self.coming

    @property
    def changed(self) -> bool:
        """Whether there was any node to wake."""
        return bool(self.awake or self.failed or self.coming)

    def followed_by(self, later: "NodesBack") -> "NodesBack":
        """Return both as one."""
        return NodesBack(
            tuple(dict.fromkeys(self.awake + later.awake)),
            tuple(dict.fromkeys(self.failed + later.failed)),
            later.coming,
            later.refused,
        )

    def describe(self) -> str:
        """Return one line for people."""
        parts = (
            (self.awake, "awake again"),
            (self.failed, "down"),
            (self.coming, "to come"),
        )
        return "; ".join(f"{some_nodes(n)} {what}" for n, what in parts if n) or "no node was asleep"

    def news(self, before: "NodesBack") -> Iterator[str]:
        """Yield lines for people about what was not so at the looks before."""
        if self.awake or self.failed or not before.coming:
            yield self.describe()
        if self.refused != before.refused:
            yield from (f"node {node} is not woken: {why}" for node, why in self.refused)

    def refusals(self) -> Iterator[str]:
        """Yield nothing: what is refused is asked again."""
        yield from ()

    def document(self) -> dict[str, list[str]]:
        """Return it as fields of the restore command's JSON."""
        return {
            "nodes_awake": list(self.awake),
            "nodes_failed": list(self.failed),
            "nodes_to_come": list(self.coming),
        }


def wake_touched(
    power: PowerControl, touched: TouchedNodes, *, go_on: Callable[[], bool] = lambda: True
) -> NodesBack:
    """Look at the touched nodes once, and ask for what is to be asked now; call it again while some come.

    `go_on` is asked before: a daemon that came back stops it. Raises ServiceUnavailableError when the cluster
    does not answer, OSError when the record cannot be read.
    """
    touched.reload()
    if not len(touched):
        return NodesBack()
    nodes = power.read().by_name
    awake, failed, coming, asleep = [], [], [], []
    for name in touched:
        node = nodes.get(name)
        tried = touched.values[name] is NodeTouch.WOKEN
        if node is None or node.power is PowerState.AWAKE:
            awake.append(name)
        elif node.power is PowerState.AWAY or (node.power is PowerState.BOOT_FAILED and tried):
            failed.append(name)
        else:
            coming.append(name)
            if node.power in (PowerState.ASLEEP, PowerState.BOOT_FAILED):
                asleep.append(WakeNode(name))
    refused: list[tuple[str, str]] = []
    if asleep and go_on():
        with suppress(OSError):  # a record that cannot be written is no hindrance
            touched.note(asleep)
        refused = [(refusal.change.node, refusal.why) for refusal in power.apply(asleep)]
    with suppress(OSError):  # they are looked at again
        touched.cross_off([*awake, *failed])
    return NodesBack(tuple(awake), tuple(failed), tuple(coming), tuple(refused))
