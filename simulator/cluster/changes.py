"""What happens to a cluster's nodes while a workload runs."""

from dataclasses import dataclass
from math import isfinite

from foundation.errors import BadInputError


@dataclass(frozen=True, slots=True)
class SizeChange:
    """From `at_s` on a virtual cluster has `nodes` nodes.

    Nodes come at once. Nodes that leave are drained, highest index first: idle ones go at once, others when
    their jobs end.
    """

    at_s: float
    virtual_cluster: str
    nodes: int

    def __post_init__(self) -> None:
        if not isfinite(self.at_s) or self.nodes < 0:
            raise BadInputError(f"{self} is no size change.", remedy="Use a time in s and 0 or more nodes.")


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """A node fails for `down_s` seconds; its jobs are killed, lose their progress and queue again."""

    at_s: float
    virtual_cluster: str
    node: int
    down_s: float

    def __post_init__(self) -> None:
        if not isfinite(self.at_s) or not 0 < self.down_s < float("inf") or self.node < 0:
            raise BadInputError(
                f"{self} is no node failure.", remedy="Use a time in s, a node index and more than 0 s down."
            )


ClusterChange = SizeChange | NodeFailure


@dataclass(frozen=True)
class Repair:
    """A failed node comes back."""

    at_s: float
    home: str  # the pool that the node belongs to
    node: int
    reason: str
