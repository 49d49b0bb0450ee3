"""A cluster's table of nodes: counts of equal nodes by virtual cluster, or a row a node, which may be shared.

`nodes` nodes of `gpus_per_node` GPUs stand in each row, once: the sum over the rows is the cluster. A row
of nodes that several virtual clusters may use (Slurm's partitions) names them in `partitions`, and the first
of them in `virtual_cluster`, where its GPUs are counted.
"""

from collections.abc import Sequence

import pandas as pd

from foundation.errors import BadInputError

# What a row may say besides: null throughout where a table only counts.
NODE_FACTS = ("node", "partitions", "gpu_type", "cpus_per_node", "memory_mib_per_node")


def without_unknown_facts(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return the table without the facts that no row says."""
    return nodes.drop(columns=[name for name in NODE_FACTS if name in nodes and nodes[name].isna().all()])


def owners_of_rows(nodes: pd.DataFrame) -> list[list[str]]:
    """Return the virtual clusters that may use the nodes of each row."""
    names = nodes["virtual_cluster"].astype(str).tolist()
    if "partitions" not in nodes:
        return [[name] for name in names]
    texts = nodes["partitions"].tolist()
    return [
        text.split(",") if isinstance(text, str) and text else [name]
        for name, text in zip(names, texts, strict=True)
    ]


def open_to_each(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each virtual cluster that may use a row's nodes: shared ones repeatedly."""
    owners = pd.Series(owners_of_rows(nodes), index=nodes.index, dtype=object)
    repeated = nodes.assign(virtual_cluster=owners).explode("virtual_cluster")
    return repeated.assign(virtual_cluster=repeated["virtual_cluster"].astype(str)).reset_index(drop=True)


def nodes_of_each(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return nodes, gpus and gpus_per_node (of the largest) that each virtual cluster may use, by name."""
    rows = open_to_each(nodes)
    rows = rows.assign(gpus=rows["nodes"] * rows["gpus_per_node"])
    grouped = rows.groupby("virtual_cluster", sort=False)
    return grouped.agg(nodes=("nodes", "sum"), gpus=("gpus", "sum"), gpus_per_node=("gpus_per_node", "max"))


def are_equal_and_unshared(nodes: pd.DataFrame) -> bool:
    """Whether each virtual cluster has nodes of its own, all of one size."""
    shared = any(len(owners) > 1 for owners in owners_of_rows(nodes))
    sizes = nodes[nodes["nodes"] > 0].groupby("virtual_cluster")["gpus_per_node"].nunique()
    return not shared and bool((sizes <= 1).all())


def counted(nodes: pd.DataFrame, what: str, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return virtual_cluster, nodes, gpus_per_node: a row a virtual cluster (and value of the columns `by`).

    For what counts in equal nodes; raises BadInputError, which says that `what` does, for others.
    """
    if not are_equal_and_unshared(nodes):
        raise BadInputError(
            f"{what} counts in equal nodes of one virtual cluster each; these differ in size or are shared.",
            remedy="Give so many equal nodes as come nearest: virtual_cluster,nodes and --gpus-per-node.",
        )
    keys = ["virtual_cluster", *by]
    if not nodes.duplicated(keys).any():
        return nodes
    return (
        nodes.groupby(keys, sort=False, dropna=False, as_index=False)
        .agg(nodes=("nodes", "sum"), gpus_per_node=("gpus_per_node", "max"))
    )  # fmt: skip
