"""Free GPUs of the nodes on which jobs end or give way, without a look at the others."""

from simulator.cluster.node_bits import lowest, nodes_of
from simulator.cluster.placement import FreeGpus, Placement


class FreedGpus:
    """What is free on equal nodes beside `plan` once jobs have given up theirs."""

    __slots__ = ("_enough", "_freed", "_plan", "_with_enough")

    def __init__(self, plan: FreeGpus, enough: int) -> None:
        """`enough` GPUs on a node are what is looked for; no node has them yet."""
        self._plan = plan
        self._enough = enough
        self._freed: dict[int, int] = {}  # node -> GPUs
        self._with_enough: dict[int, int] = {}  # GPUs more -> the nodes that would have enough with them

    def give(self, placement: Placement) -> int:
        """Free a placement; return those of its nodes, as a set, that have enough now."""
        node = placement.node
        if node is None:
            return self._give_blocks(placement)
        freed = self._freed
        freed[node] = gpus = freed.get(node, 0) + placement.gpus
        nodes = self._with_enough.get(gpus)
        if nodes is None:
            nodes = self._having(gpus)
        return nodes & placement.blocks[0][0]

    def _give_blocks(self, placement: Placement) -> int:
        nodes = 0
        for block, gpus in placement.blocks:
            if gpus == self._plan.gpus_per_node:
                nodes |= block & self._having(gpus)
            else:
                for node in nodes_of(block):
                    self._freed[node] = freed = self._freed.get(node, 0) + gpus
                    nodes |= 1 << node & self._having(freed)
        return nodes

    def _having(self, gpus: int) -> int:
        if gpus not in self._with_enough:
            self._with_enough[gpus] = self._plan.having(self._enough - gpus)
        return self._with_enough[gpus]

    def fullest(self, nodes: int) -> tuple[int, int]:
        """Return the fullest of these nodes, the lowest on ties, and its free GPUs; they were given up."""
        free_of = [
            (self._plan.on_node(node) + gpus, node) for node, gpus in self._freed.items() if nodes >> node & 1
        ]
        # Nodes that were given up as a whole are not in `_freed`: idle, they lose to any node in use.
        free, node = min([*free_of, (self._plan.gpus_per_node, lowest(nodes).bit_length() - 1)])
        return node, free
