"""A running Slurm's configuration as scontrol tells it, in the shape of a slurm.conf that was read."""

import re
from collections.abc import Iterator

from cluster_logs.slurm_site.conf_text import Pair, SourcePlace
from cluster_logs.slurm_site.declarations import Declarations, declared_by
from cluster_logs.slurm_words import NODE_STARTS_NOTHING, node_words

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
