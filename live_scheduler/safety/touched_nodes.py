"""Which nodes this product has put to sleep: written before the cluster is asked for it.

    STATE/touched_nodes.jsonl    {"node": "n3", "how": "put to sleep"}
                                 {"node": "n3", "how": "woken"}
                                 {"node": "n3", "how": ""}                     it is awake again

The way back reads it (`waking.py`), also after a `kill -9` of the daemon at any point. A node that was to be
put to sleep and was not is awake, and is crossed off; one that sleeps by the cluster's own word is not here.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from live_scheduler.last_lines import LastLines
from live_scheduler.node_sleep.node_power import NodeChange, PowerReading, PowerState, PutToSleep

TOUCHED_NODES_FILE = "touched_nodes.jsonl"
_MOST_STALE_LINES = 20_000


class NodeTouch(StrEnum):
    """What this product asked of a node last."""

    PUT_TO_SLEEP = "put to sleep"
    WOKEN = "woken"


class TouchedNodes:
    """The record of one state folder. One process writes at a time, any may read."""

    def __init__(self, folder: Path) -> None:
        """Read what is there (nothing without the file). Raises OSError."""
        self._nodes = LastLines(
            folder / TOUCHED_NODES_FILE, _fields, _read_fields, most_stale=_MOST_STALE_LINES
        )

    def __len__(self) -> int:
        return len(self._nodes)

    def names(self) -> list[str]:
        """Return the nodes, in the order of their first touch."""
        return list(self._nodes)

    def of(self, node: str) -> NodeTouch | None:
        """Return what was asked of a node last; None: nothing that lasts."""
        return self._nodes.get(node)

    def reload(self) -> None:
        """Read the record anew if another process wrote it. Raises OSError."""
        self._nodes.reload()

    def note(self, changes: Iterable[NodeChange]) -> None:
        """Write down changes before they are asked for. Raises OSError.

        A node that another put to sleep need not be given back once it was woken here.
        """
        self._nodes.refresh()
        self._nodes.note(
            {
                change.node: NodeTouch.PUT_TO_SLEEP if isinstance(change, PutToSleep) else NodeTouch.WOKEN
                for change in changes
                if isinstance(change, PutToSleep) or self._nodes.get(change.node) is not None
            }
        )

    def cross_off(self, nodes: Iterable[str]) -> None:
        """Write down that these nodes are as the cluster would have them. Raises OSError."""
        self._nodes.note(dict.fromkeys(nodes))

    def cross_off_awake(self, reading: PowerReading) -> None:
        """Cross off the nodes that are awake again, or gone. Raises OSError."""
        nodes = reading.by_name
        self.cross_off(
            name for name in self.names() if name not in nodes or nodes[name].power is PowerState.AWAKE
        )


def _fields(node: str, how: NodeTouch | None) -> Mapping[str, object]:
    return {"node": node, "how": how or ""}


def _read_fields(fields: Mapping[str, Any]) -> tuple[str, NodeTouch | None]:
    return str(fields["node"]), NodeTouch(fields["how"]) if fields["how"] else None
