"""Which nodes this product has put to sleep: written before the cluster is asked for it.

    STATE/touched_nodes.jsonl    {"node": "n3", "how": "put to sleep"}
                                 {"node": "n3", "how": "woken"}
                                 {"node": "n3", "how": ""}                     it is awake again

The way back reads it (`waking.py`), also after a `kill -9` of the daemon at any point. A node that was to be
put to sleep and was not is awake, and is crossed off; one that sleeps by the cluster's own word is not here.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from live_scheduler.cluster_state import PowerState
from live_scheduler.memory.records import LastLines
from parts.node_sleep.live.node_power import NodeChange, PowerReading, PutToSleep

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
