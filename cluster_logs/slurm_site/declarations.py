"""What a slurm.conf declares, before anything is made of it: settings, and lines about nodes and partitions.

A line of DEFAULT adds to the defaults of the lines below it; of a setting that is repeated the last holds, of
a set of nodes the first. Keys are known by their names in lower case.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cluster_logs.slurm_site.conf_text import Pair, SourcePlace, read_lines
from foundation.errors import BadInputError

# First key of a line -> the list of Declarations that the line goes to.
_LISTS = {
    "nodename": "nodes",
    "nodeset": "node_sets",
    "partitionname": "partitions",
    "downnodes": "down_nodes",
    "frontendname": "front_ends",
}
# Keys with two names.
_SAME = {
    "procs": "cpus",
    "feature": "features",
    "shared": "oversubscribe",
}


@dataclass(frozen=True, slots=True)
class ConfLine:
    """A line about nodes or a partition with its defaults filled in; the key in front is in `options` too."""

    name: str
    place: SourcePlace
    options: Mapping[str, Pair]

    def get(self, key: str) -> Pair | None:
        """Return what the line says of a key, given in lower case; None: nothing."""
        return self.options.get(key)


@dataclass
class Declarations:
    """The settings by name in lower case, and the lines in their order."""

    settings: dict[str, Pair] = field(default_factory=dict)
    nodes: list[ConfLine] = field(default_factory=list)
    node_sets: list[ConfLine] = field(default_factory=list)
    partitions: list[ConfLine] = field(default_factory=list)
    down_nodes: list[ConfLine] = field(default_factory=list)
    front_ends: list[ConfLine] = field(default_factory=list)


def read_declarations(path: str) -> Declarations:
    """Return what a slurm.conf and what it includes declare. Raises BadInputError, NotFoundError."""
    return declared_by(read_lines(path))


def declared_by(lines: Iterable[list[Pair]]) -> Declarations:
    """Return what lines declare."""
    declared = Declarations()
    defaults: dict[str, dict[str, Pair]] = {name: {} for name in _LISTS.values()}
    for pairs in lines:
        first, *others = pairs
        kind = _LISTS.get(first.key.lower())
        if kind is None:
            if others:
                raise BadInputError(
                    f"{first.place}: {others[0].key}={others[0].value[:200]} stands behind {first.key}.",
                    remedy="Slurm reads one setting a line, and no space within a value without quotes.",
                )
            declared.settings[first.key.lower()] = first
            continue
        options = {_SAME.get(pair.key.lower(), pair.key.lower()): pair for pair in others}
        if first.value.upper() == "DEFAULT":
            defaults[kind].update(options)
        else:
            whole = defaults[kind] | options | {first.key.lower(): first}
            getattr(declared, kind).append(ConfLine(first.value, first.place, whole))
    return declared
