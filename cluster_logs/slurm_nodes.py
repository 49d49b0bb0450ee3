"""Slurm's nodes counted by state, as `sinfo` or `scontrol show node` shows them, now or in a file.

A file may hold many answers, each below a line with its time:

    # 2026-03-01T08:00:00Z
    n1|vc1|gpu:8|mixed
    n2|vc1|gpu:8|idle~
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from cluster_logs.node_states import NODE_STATE_ROWS_SCHEMA, OTHER_STATES, SLURM
from cluster_logs.slurm_words import NODE_STARTS_NOTHING, node_words
from foundation.errors import BadInputError

# One line a node and partition: node|partition|gres|state.
SINFO = ("sinfo", "--all", "--Node", "--noheader", "--format=%N|%R|%G|%T")
_FIELDS = 4

_GPUS = re.compile(r"(?:^|,)gpu\b")
_FIELD_OF_SCONTROL = re.compile(r"(?:^|\s)(NodeName|State|Gres|Partitions)=(\S*)")
_BUSY = frozenset({"allocated", "alloc", "mixed", "mix", "completing", "comp", "draining", "drng"})
_ASLEEP = frozenset({"powered_down", "powering_down"})
_IDLE = frozenset({"idle", "planned", "plnd", "reserved", "resv", "cloud", "power_down", "reboot_requested"})
_AWAY = frozenset({"down", "drain", "drained", "fail", "failing", "failg", "error"})
# A reservation keeps a node, which is none the less there and idle.
_RESERVED = frozenset({"reserved", "resv"})


@dataclass(frozen=True, slots=True)
class CountedNode:
    """A node as Slurm shows it: its partitions, its state (busy, idle, ...), whether it has GPUs."""

    name: str
    partitions: tuple[str, ...]
    state: str
    has_gpus: bool


def node_state(words: str) -> str:
    """Return busy, idle, down, asleep or booting for a state with its marks (`idle~`, `MIXED+DRAIN`).

    A node that runs jobs is busy whatever else holds, unless it boots for them; one that is drained or down
    is down even while it sleeps. A flag that is not known changes nothing; a state that is not known counts
    as down: nothing can be planned there.
    """
    flags = node_words(words)
    if "powering_up" in flags:
        return "booting"
    if flags & _BUSY:
        return "busy"
    if flags & _AWAY:
        return "down"
    if flags & _ASLEEP:
        return "asleep"
    return "idle" if flags & _IDLE and not flags & (NODE_STARTS_NOTHING - _RESERVED) else "down"


def read_slurm_nodes(text: str, place: str, *, at: datetime | None = None) -> pa.Table:
    """Return counts (NODE_STATE_ROWS_SCHEMA) of each answer in a text: the whole cluster, and each partition.

    `at` is the time of an answer above which no time stands. Nodes with GPUs are counted; where none has
    any, all. Raises BadInputError for a line that is none of Slurm's, and where no time is known.
    """
    rows: list[dict[str, object]] = []
    for when, nodes in _answers(text.splitlines(), place, at):
        rows += _counts(nodes, when)
    if not rows:
        raise BadInputError(f"{place} names no node.", remedy=f"Write what this prints: {_command()}.")
    return pa.Table.from_pylist(rows, schema=NODE_STATE_ROWS_SCHEMA)


def _answers(
    lines: Iterable[str], place: str, at: datetime | None
) -> Iterator[tuple[datetime, list[CountedNode]]]:
    """Yield each answer's time and its nodes."""
    when, nodes = at, dict[str, CountedNode]()
    record: list[str] = []

    def close_record() -> None:
        if record:
            _add(nodes, _of_scontrol(" ".join(record), place))
            record.clear()

    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.startswith("#"):
            close_record()
            if nodes:
                yield _known(when, place), list(nodes.values())
            when, nodes = _time_of(text.lstrip("# "), place, number), {}
        elif text.startswith("NodeName="):
            close_record()
            record.append(text)
        elif record and text:
            record.append(text)
        elif text:
            _add(nodes, _of_sinfo(text, place, number))
    close_record()
    if nodes:
        yield _known(when, place), list(nodes.values())


def _of_sinfo(line: str, place: str, number: int) -> CountedNode:
    fields = line.split("|")
    if len(fields) != _FIELDS or not all(fields):
        raise BadInputError(
            f"{place}, line {number}: {line[:200]!r} is no node.",
            remedy=f"Write what this prints: {_command()}; or scontrol show node.",
        )
    name, partition, gres, state = fields
    return CountedNode(name, (partition,), node_state(state), bool(_GPUS.search(gres)))


def _of_scontrol(record: str, place: str) -> CountedNode:
    # The first of each: a reason, which people write, stands last and may hold anything.
    fields: dict[str, str] = {}
    for name, text in _FIELD_OF_SCONTROL.findall(record):
        fields.setdefault(name, text)
    if "State" not in fields:
        raise BadInputError(
            f"{place}: node {fields['NodeName']!r} has no state.", remedy="Is the file complete?"
        )
    partitions = tuple(filter(None, fields.get("Partitions", "").split(",")))
    return CountedNode(
        fields["NodeName"],
        partitions,
        node_state(fields["State"]),
        bool(_GPUS.search(fields.get("Gres", ""))),
    )


def _add(nodes: dict[str, CountedNode], node: CountedNode) -> None:
    """Add a node, or another partition of one."""
    known = nodes.get(node.name)
    partitions = node.partitions if known is None else (*known.partitions, *node.partitions)
    nodes[node.name] = CountedNode(node.name, partitions, node.state, node.has_gpus)


def _counts(nodes: list[CountedNode], when: datetime) -> Iterator[dict[str, object]]:
    with_gpus = [node for node in nodes if node.has_gpus] or nodes
    partitions = sorted({partition for node in with_gpus for partition in node.partitions})
    for owner in (None, *partitions):
        states = [node.state for node in with_gpus if owner is None or owner in node.partitions]
        counts = {state: states.count(state) for state in ("busy", *OTHER_STATES)}
        yield {
            "virtual_cluster": owner,
            "time": when,
            "total": len(states),
            **counts,
            "held": False,
            "origin": SLURM,
        }


def _time_of(text: str, place: str, number: int) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInputError(
            f"{place}, line {number}: {text[:100]!r} is no time.", remedy="Write # 2026-03-01T08:00:00Z."
        ) from error
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def _known(when: datetime | None, place: str) -> datetime:
    if when is None:
        raise BadInputError(
            f"{place} does not say when the nodes were counted.",
            remedy="Give it (--at TIME), or write a line # TIME above each answer.",
        )
    return when


def _command() -> str:
    return " ".join(word if "|" not in word else f"'{word}'" for word in SINFO)
