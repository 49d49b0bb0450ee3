"""Nodes of a slurm.conf: what a NodeName line gives them, and which names a list of nodes means."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cluster_logs.host_lists import expand_hosts, fold_hosts, listed_hosts
from cluster_logs.site.rules import Nodes
from cluster_logs.slurm_site.conf_text import Pair
from cluster_logs.slurm_site.declarations import ConfLine, Declarations
from cluster_logs.slurm_site.values import bad, whole_number, words

# States of a NodeName or DownNodes line in which a node starts nothing until an operator changes that.
_STARTS_NOTHING = frozenset({"down", "drain", "fail", "failing", "future"})
_STATES = _STARTS_NOTHING | {"unknown", "cloud", "idle", "external"}
_COUNT = re.compile(r"([0-9]{1,15})([KkMmGgTtPp]?)")
_ENTRY = re.compile(r"(?:[^,()]|\([^()]*\))+")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}


class NodeTable:
    """The nodes that a slurm.conf declares, by name."""

    def __init__(self, declared: Declarations) -> None:
        """Read them. Raises BadInputError for a name that stands twice and for a value that is none."""
        gres_types = declared.settings.get("grestypes")
        self._gres_types = frozenset(words(gres_types)) if gres_types is not None else frozenset()
        self.uncounted_gres: dict[str, Pair] = {}
        self._nodes: dict[str, Nodes] = {}
        self._lists: list[str] = []
        self._sets: dict[str, ConfLine] = {}
        for line in declared.nodes:
            self._add(line)
        for line in declared.node_sets:
            for name in words(line.options["nodeset"]):
                self._sets.setdefault(name, line)
        self.unknown_down = [pair for line in declared.down_nodes for pair in self._take_down(line)]

    def rules(self) -> tuple[Nodes, ...]:
        """Return nodes that are alike together, in the order of the first of each kind."""
        alike: dict[tuple[object, ...], list[str]] = {}
        for name, node in self._nodes.items():
            alike.setdefault(_kind(node), []).append(name)
        return tuple(
            replace(self._nodes[names[0]], names=tuple(fold_hosts(names))) for names in alike.values()
        )

    def named_by(self, listed: Pair, of: str) -> tuple[str, ...]:
        """Return the host lists that a partition's Nodes= means: ALL, sets of nodes, or lists themselves.

        Raises BadInputError for a node that is not declared; `of` names the partition.
        """
        if listed.value.upper() == "ALL":
            return tuple(self._lists)
        lists: list[str] = []
        for entry in _entries(listed):
            lists += self._of_set(self._sets[entry], of) if entry in self._sets else [entry]
        self._check_known(lists, listed, of)
        return tuple(dict.fromkeys(lists))

    def _add(self, line: ConfLine) -> None:
        listed = line.options["nodename"]
        node = self._read(line)
        entries = _entries(listed)
        names = [name for entry in entries for name in expand_hosts(entry)]
        for name in names:
            if name in self._nodes:
                raise bad(listed, f"declares node {name!r} again", "Slurm takes each node once.")
            self._nodes[name] = node
        if not names:
            raise bad(listed, "names no node")
        self._lists += entries

    def _read(self, line: ConfLine) -> Nodes:
        state = line.get("state")
        features = line.get("features")
        specialised = _number(line, "corespeccount", 0) * _number(line, "threadspercore", 1)
        return Nodes(
            names=(line.name,),
            cpus=max(1, _cpus(line) - specialised),
            memory_mib=max(1, _number(line, "realmemory", 1) - _number(line, "memspeclimit", 0)),
            gres=self._gres(line.get("gres")),
            features=words(features) if features is not None else (),
            weight=_number(line, "weight", 1),
            up=state is None or _is_up(state),
        )

    def _gres(self, pair: Pair | None) -> Mapping[str, int]:
        """Return the counts of a Gres list by name and type; Slurm counts what GresTypes names."""
        counts: dict[str, int] = {}
        if pair is None:
            return counts
        for entry in _ENTRY.findall(pair.value):
            kind, *rest = (part for part in entry.partition("(")[0].split(":") if part != "no_consume")
            if kind not in self._gres_types:
                self.uncounted_gres[kind] = pair
                continue
            # A number alone is a count: the type of gpu:3090:4 is 3090, and gpu:3090 are 3,090 GPUs.
            counted = _COUNT.fullmatch(rest.pop()) if rest and _COUNT.fullmatch(rest[-1]) else None
            if len(rest) > 1 or not all(rest):
                raise bad(pair, f"has {entry!r}, which is no GRES", "Write name:type:count, as gpu:a100:4.")
            name = f"{kind}:{rest[0].lower()}" if rest else kind
            count = 1 if counted is None else int(counted[1]) * _UNITS[counted[2].upper()]
            counts[name] = counts.get(name, 0) + count
        return counts

    def _of_set(self, line: ConfLine, of: str) -> list[str]:
        """Return the host lists of a set: nodes with its feature, and nodes that it names."""
        feature, listed = line.get("features"), line.get("nodes")
        lists: list[str] = []
        if feature is not None:
            lists += fold_hosts(name for name, node in self._nodes.items() if feature.value in node.features)
        if listed is not None:
            entries = _entries(listed)
            self._check_known(entries, listed, of)
            lists += entries
        return lists

    def _check_known(self, lists: Iterable[str], listed: Pair, of: str) -> None:
        unknown = [name for each in lists for name in expand_hosts(each) if name not in self._nodes]
        if unknown:
            more = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
            raise bad(
                listed,
                f"gives partition {of!r} node {unknown[0]!r}{more}, which no NodeName line declares",
                "Declare it, or correct the list.",
            )

    def _take_down(self, line: ConfLine) -> list[Pair]:
        """Mark the nodes of a DownNodes line; Slurm passes over one that is not there, which is returned."""
        listed, state = line.options["downnodes"], line.get("state")
        if state is not None and _is_up(state):
            return []
        unknown = []
        for entry in _entries(listed):
            for name in expand_hosts(entry):
                if name in self._nodes:
                    self._nodes[name] = replace(self._nodes[name], up=False)
                else:
                    unknown.append(Pair(listed.key, name, listed.place))
        return unknown


def _entries(listed: Pair) -> list[str]:
    try:
        return listed_hosts(listed.value)
    except ValueError as error:
        raise bad(listed, f"is no list of nodes: {error}", "Write names as n[1-4,7],login.") from error


def _is_up(state: Pair) -> bool:
    word = state.value.lower()
    if word not in _STATES:
        raise bad(state, "is no state of a node", f"Slurm knows: {', '.join(sorted(_STATES))}.")
    return word not in _STARTS_NOTHING


def _cpus(line: ConfLine) -> int:
    """Return the CPUs of a node: as declared, or those of its sockets where that fits neither of them."""
    boards, per_board = _number(line, "boards", 1), _number(line, "socketsperboard", 0)
    sockets = boards * per_board if per_board else _number(line, "sockets", 0)
    cores, threads = _number(line, "corespersocket", 0), _number(line, "threadspercore", 1)
    declared = line.get("cpus")
    if not sockets and not cores:
        return boards * threads if declared is None else whole_number(declared)
    sockets, cores = sockets or 1, cores or 1
    whole = sockets * cores * threads
    said = whole if declared is None else whole_number(declared)
    return said if said in (sockets, sockets * cores, whole) else whole


def _number(line: ConfLine, key: str, otherwise: int) -> int:
    pair = line.get(key)
    return otherwise if pair is None else whole_number(pair)


def _kind(node: Nodes) -> tuple[object, ...]:
    gres = tuple(node.gres.items())
    return node.cpus, node.memory_mib, gres, node.features, node.weight, node.up
