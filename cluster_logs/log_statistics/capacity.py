"""How many GPUs a cluster's virtual clusters have, and since when."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.node_table import open_to_each

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Capacity:
    """GPUs and nodes of each virtual cluster from a moment on.

    `gpus`, `nodes`, `open_gpus`: a row a moment (index: seconds since 1970, ascending; -inf: from the
    beginning), a column a virtual cluster. A row that is zero throughout is a gap of the source: the row
    before it holds on. Nodes that several virtual clusters share are counted in one of them, so that the sum
    is the cluster; `open_gpus` are all that a virtual cluster may use.
    """

    gpus: pd.DataFrame
    nodes: pd.DataFrame
    open_gpus: pd.DataFrame

    def at(self, seconds: FloatArray) -> FloatArray:
        """GPUs of the whole cluster at instants, shape (instants,)."""
        return self._rows(seconds, self.gpus.sum(axis=1).to_numpy(dtype=np.float64))

    def of(self, virtual_cluster: str, seconds: FloatArray) -> FloatArray:
        """GPUs that one virtual cluster may use at instants; zero before it was there."""
        if virtual_cluster not in self.open_gpus:
            return np.zeros(len(seconds))
        return self._rows(seconds, self.open_gpus[virtual_cluster].to_numpy(dtype=np.float64))

    def on(self, second: float) -> "pd.Series[int]":
        """GPUs that each virtual cluster may use at one instant, in the source's order; none is left out."""
        row = self.open_gpus.iloc[self._row_at(second)]
        return row[row > 0]

    def only(self, virtual_clusters: Iterable[str]) -> "Capacity | None":
        """The capacity of some of them; None where none is known."""
        names = [name for name in virtual_clusters if name in self.gpus]
        return _known_rows(self.gpus[names], self.nodes[names], self.open_gpus[names])

    def nodes_on(self, second: float) -> int:
        """Nodes of the whole cluster at one instant."""
        return int(self.nodes.iloc[self._row_at(second)].sum())

    def _row_at(self, second: float) -> int:
        return max(0, int(np.searchsorted(self.gpus.index.to_numpy(), second, side="right")) - 1)

    def _rows(self, seconds: FloatArray, values: FloatArray) -> FloatArray:
        since = self.gpus.index.to_numpy(dtype=np.float64)
        if len(values) == 1:
            return np.full(len(seconds), values[0])
        return values[np.maximum(0, np.searchsorted(since, seconds, side="right") - 1)]


def capacity_of(nodes: pd.DataFrame) -> Capacity | None:
    """The capacity in rows of virtual_cluster, nodes, gpus_per_node (perhaps partitions), from_s (-inf:
    always); None without any.

    A virtual cluster that a later moment does not name has none from then on.
    """
    if nodes.empty:
        return None
    counted = nodes.assign(gpus=nodes["nodes"] * nodes["gpus_per_node"])
    each = open_to_each(counted)
    names = pd.unique(each["virtual_cluster"])
    tables = [
        rows.pivot_table(index="from_s", columns="virtual_cluster", values=what, aggfunc="sum", fill_value=0)
        .reindex(columns=names, fill_value=0)
        .sort_index()
        for rows, what in ((counted, "gpus"), (counted, "nodes"), (each, "gpus"))
    ]
    return _known_rows(*tables)


def _known_rows(gpus: pd.DataFrame, nodes: pd.DataFrame, open_gpus: pd.DataFrame) -> Capacity | None:
    not_a_gap = (gpus.sum(axis=1) > 0).to_numpy()
    if not not_a_gap.any():
        return None
    return Capacity(gpus[not_a_gap], nodes[not_a_gap], open_gpus[not_a_gap])
