"""Virtual clusters that share nodes: nodes that are joined by those that may use them are one pool."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class NodeShape:
    """Nodes that are alike: the virtual clusters that may use them, and how many GPUs each has."""

    owners: tuple[str, ...]
    gpus: int
    nodes: int = 1


@dataclass(frozen=True)
class SharedNodes:
    """The nodes of a pool that one of several virtual clusters may use: bit *i* for node *i*."""

    pool: str
    nodes: int


def share_nodes(
    shapes: Iterable[NodeShape],
) -> tuple[Mapping[str, tuple[int, ...]], Mapping[str, SharedNodes]]:
    """Return each pool's nodes, as the GPUs of each, and which of them each of several owners may use.

    A virtual cluster that shares none is a pool of its name, in the order of the rows. One that shares nodes
    with others is in a pool with all that it is joined to, whose name is theirs, joined by `+`.
    """
    rows = list(shapes)
    group_of: dict[str, dict[str, None]] = {}  # a virtual cluster -> those that it is joined to, in order
    for row in rows:
        joined: dict[str, None] = {}
        for owner in row.owners:
            joined |= group_of.get(owner, {owner: None})
        for owner in joined:
            group_of[owner] = joined
    pool_of = {owner: _name(group, taken=group_of) for owner, group in group_of.items()}
    sizes: dict[str, list[int]] = {}
    masks: dict[str, int] = {}
    for row in rows:
        nodes = sizes.setdefault(pool_of[row.owners[0]], [])
        new = ((1 << row.nodes) - 1) << len(nodes)
        nodes += [row.gpus] * row.nodes
        for owner in row.owners:
            masks[owner] = masks.get(owner, 0) | new
    shared = {
        owner: SharedNodes(pool_of[owner], masks[owner])
        for owner, group in group_of.items()
        if len(group) > 1
    }
    return {name: tuple(nodes) for name, nodes in sizes.items()}, shared


def _name(group: Mapping[str, None], *, taken: Mapping[str, object]) -> str:
    name = "+".join(group)
    while len(group) > 1 and name in taken:  # a virtual cluster is called so
        name += "+"
    return name
