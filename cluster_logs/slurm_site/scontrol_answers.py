"""A running Slurm's configuration as scontrol prints it, in the shape of a slurm.conf that was read, and its
reservations of nodes.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from cluster_logs.host_lists import listed_hosts
from cluster_logs.site.rules import NodeReservation
from cluster_logs.slurm_site.conf_text import Pair, SourcePlace
from cluster_logs.slurm_site.declarations import Declarations, declared_by
from cluster_logs.slurm_site.key_account import KeyAccount
from cluster_logs.slurm_words import NODE_STARTS_NOTHING, node_words
from foundation.errors import BadInputError

CONFIG, NODES, PARTITIONS, RESERVATIONS = (
    ("scontrol", "show", "config"),
    ("scontrol", "-a", "-o", "show", "node"),
    ("scontrol", "-a", "-o", "show", "partition"),
    ("scontrol", "-a", "-o", "show", "reservation"),
)
_SETTING = re.compile(r"([A-Za-z0-9_]+)\s*=\s*(.*)")
_UNIT = re.compile(r"(\d+) (?:sec|min|usec|percent|nodes/min)")
_FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
# Its words for a node -> those of a NodeName line. What may run is CPUEfctv where specialised cores do not.
_NODE_KEYS = {
    "NodeName": "NodeName",
    "CPUEfctv": "CPUs",
    "RealMemory": "RealMemory",
    "MemSpecLimit": "MemSpecLimit",
    "Gres": "Gres",
    "AvailableFeatures": "Features",
    "Weight": "Weight",
}
# A reservation keeps such a node, and is read by itself.
_KEPT = frozenset({"reserved", "resv", "maint", "maintenance"})
_NOTHING = frozenset({"", "(null)"})
# What is kept beside nodes -> what the replay makes of it.
_EFFECTS = {
    "Features": "the nodes are chosen by it; the replay keeps the ones that Slurm has chosen",
    "Licenses": "licences are kept; the replay has as many as jobs want",
    "BurstBuffer": "a burst buffer is kept; the replay knows none",
    "Groups": "its jobs are of groups; the replay knows users and accounts alone",
}


def declared_by_scontrol(config: str, nodes: str, partitions: str) -> Declarations:
    """Return what CONFIG, NODES and PARTITIONS printed as if it had been declared."""
    lines = (*_settings(config), *_nodes(nodes), *_partitions(partitions))
    return declared_by(lines)


def _settings(text: str) -> Iterator[list[Pair]]:
    """Yield the settings; what stands below the empty line (cgroup.conf, MPI) are others."""
    place = SourcePlace(" ".join(CONFIG))
    for line in text.partition("\n\n")[0].splitlines():
        match = _SETTING.fullmatch(line.strip())
        if match is not None and match[2] not in _NOTHING:
            unit = _UNIT.fullmatch(match[2])
            yield [Pair(match[1], match[2] if unit is None else unit[1], place)]


def _nodes(text: str) -> Iterator[list[Pair]]:
    place = SourcePlace(" ".join(NODES))
    for line in text.splitlines():
        # The first of each: a reason, which people write, stands last and may hold anything.
        said: dict[str, str] = {}
        for key, value in _FIELD.findall(line):
            said.setdefault(key, value)
        if "NodeName" not in said:
            continue
        said.setdefault("CPUEfctv", said.get("CPUTot", ""))
        pairs = [
            Pair(ours, said[theirs], place)
            for theirs, ours in _NODE_KEYS.items()
            if said.get(theirs, "") not in _NOTHING
        ]
        down = node_words(said.get("State", "")) & NODE_STARTS_NOTHING - _KEPT
        yield [*pairs, Pair("State", "DOWN" if down else "IDLE", place)]


def _partitions(text: str) -> Iterator[list[Pair]]:
    place = SourcePlace(" ".join(PARTITIONS))
    for line in text.splitlines():
        pairs = [Pair(key, value, place) for key, value in _FIELD.findall(line) if value not in _NOTHING]
        if pairs and pairs[0].key == "PartitionName":
            yield pairs


def read_reservations(text: str, file: str, account: KeyAccount) -> tuple[NodeReservation, ...]:
    """Return the reservations of a text with times in UTC. Raises BadInputError for a line that is none."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip().startswith("ReservationName="):
            continue
        said = dict(word.partition("=")[::2] for word in line.split())
        name = said["ReservationName"]
        try:
            start, end = (
                datetime.fromisoformat(said[key]).replace(tzinfo=UTC) for key in ("StartTime", "EndTime")
            )
        except (KeyError, ValueError) as error:
            raise BadInputError(
                f"{file}, line {number}: reservation {name!r} has no times: {error}.",
                remedy="Write what `TZ=UTC scontrol -o show reservation` prints.",
            ) from error
        flags = _names(said, "Flags")
        found.append(
            NodeReservation(
                name=name,
                start=start,
                end=end,
                nodes=tuple(listed_hosts(nodes)) if (nodes := said.get("Nodes", "")) not in _NOTHING else (),
                users=_names(said, "Users"),
                accounts=_names(said, "Accounts"),
                flags=flags,
            )
        )
        for key, effect in _EFFECTS.items():
            if said.get(key, "") not in _NOTHING:
                account.ignored(key, f"reservation {name}: {said[key]}", effect)
    return tuple(found)


def _names(said: dict[str, str], key: str) -> tuple[str, ...]:
    value = said.get(key, "")
    return () if value in _NOTHING else tuple(filter(None, value.split(",")))
