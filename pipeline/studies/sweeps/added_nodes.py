"""A cluster with more or fewer nodes: so many of named virtual clusters, or of all of them in proportion."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from cluster_logs.node_table import counted
from foundation.errors import BadInputError, UnknownNameError
from pipeline.replay.proportional_sizes import in_proportion

EVERYWHERE = "*"  # nodes that are divided among all virtual clusters, as the present ones are
MOST_NODES = 100_000


def with_added_nodes(
    sizes: pd.DataFrame, added: Mapping[str, int], *, one_pool: bool = False
) -> pd.DataFrame:
    """Return sizes with so many nodes more (below 0: fewer) of each named virtual cluster, at every time.

    `sizes` has the columns virtual_cluster, from_time, nodes, gpus_per_node. What `EVERYWHERE` names comes
    first; it is divided by Sainte-Lague's divisors (`in_proportion`) and leaves each virtual cluster a node.
    Raises UnknownNameError for a virtual cluster that there is not, BadInputError where none would be left.
    """
    if not added:
        return sizes
    if one_pool:
        raise BadInputError(
            "One pool of GPUs has no nodes to add or take away.", remedy="Give node_scales, or a nodes file."
        )
    sizes = counted(sizes, "A change of the nodes", by=["from_time"])
    names = sorted(set(sizes["virtual_cluster"]))
    for name in added:
        if name != EVERYWHERE and name not in names:
            raise UnknownNameError("virtual cluster to change the nodes of:", name, names)
    times = sizes["from_time"].map(lambda time: time.value if not pd.isna(time) else -1)
    nodes = sizes["nodes"].to_numpy(dtype=np.int64).copy()
    for at in sorted(set(times)):
        rows = np.flatnonzero(times.to_numpy() == at)
        of_rows = sizes["virtual_cluster"].iloc[rows].tolist()
        counts = _changed(dict(zip(of_rows, nodes[rows].tolist(), strict=True)), added)
        nodes[rows] = [counts[name] for name in of_rows]
    return sizes.assign(nodes=nodes)


def _changed(present: dict[str, int], added: Mapping[str, int]) -> dict[str, int]:
    in_use = {name: count for name, count in present.items() if count > 0}
    total = sum(in_use.values()) + added.get(EVERYWHERE, 0)
    if total < len(in_use):
        raise BadInputError(
            f"{-added[EVERYWHERE]:,} nodes fewer leave {total:,} for {len(in_use):,} virtual clusters, which "
            "have at least one each.",
            remedy=f"Take away at most {sum(in_use.values()) - len(in_use):,}.",
        )
    changed = {**present}
    if added.get(EVERYWHERE):
        changed |= in_proportion(
            total, in_use, dict.fromkeys(in_use, 1), dict.fromkeys(in_use, sum(in_use.values()) + MOST_NODES)
        )
    for name, more in added.items():
        if name == EVERYWHERE or (not present[name] and more <= 0):
            continue
        changed[name] += more
        if changed[name] < 1:
            raise BadInputError(
                f"Virtual cluster {name!r} would have {changed[name]:,} nodes: it has {present[name]:,}, and "
                f"{-more:,} are taken away.",
                remedy="Leave it at least one.",
            )
    return changed


def added_nodes_text(added: Mapping[str, int]) -> str:
    """Return a change of nodes in words: `+4 in all`, `vc1 -2, vc2 +1`."""
    return ", ".join(
        f"{more:+,} in all" if name == EVERYWHERE else f"{name} {more:+,}"
        for name, more in sorted(added.items())
    )
