"""Answers of one fitted decision tree at many strengths of pruning, without growing it anew for each.

Minimal cost-complexity pruning takes the inner nodes away in one order, whatever its strength, which only
says when to stop (Breiman et al., Classification and Regression Trees, 1984, chapter 3). So one walk over the
tree answers for all strengths what a tree fitted with each `ccp_alpha` would.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def predict_pruned(
    fitted: Any, features: NDArray[np.float64], alphas: Sequence[float] | NDArray[np.float64]
) -> NDArray[Any]:
    """Classes that an unpruned sklearn DecisionTreeClassifier gives `features`, shape (rows, features), once
    it is pruned with each of `alphas`; shape (alphas, rows).
    """
    tree = fitted.tree_
    answer = fitted.classes_[tree.value[:, 0, :].argmax(axis=1)]
    reached = tree.apply(np.asarray(features, dtype=np.float32))  # what sklearn compares in
    order = weakest_links(tree)
    classes = np.empty((len(alphas), len(features)), dtype=answer.dtype)
    for row, alpha in enumerate(alphas):
        ends = _ends(tree, cut_nodes(order, float(alpha)))
        classes[row] = answer[ends[reached]]
    return classes


def cut_nodes(order: Sequence[tuple[float, int]], alpha: float) -> set[int]:
    """The inner nodes that pruning with `alpha` makes leaves; an alpha of 0 prunes nothing, as in sklearn."""
    cut: set[int] = set()
    if alpha > 0:
        for strength, node in order:
            if strength > alpha:
                break
            cut.add(node)
    return cut


def weakest_links(tree: Any) -> list[tuple[float, int]]:
    """(strength, node) in the order in which inner nodes of an sklearn `Tree` become leaves.

    The sums run in sklearn's order, so that the strengths are its own to the last bit.
    """
    left, right = tree.children_left.tolist(), tree.children_right.tolist()
    weight = tree.weighted_n_node_samples
    own = (weight * tree.impurity / weight[0]).tolist()  # impurity if the node were a leaf
    inner = [node for node, child in enumerate(left) if child >= 0]
    parent = dict[int, int]()
    for node in inner:
        parent |= {left[node]: node, right[node]: node}
    below, leaves = [0.0] * len(own), [0] * len(own)  # of the branch under each node
    for leaf, child in enumerate(left):
        if child < 0:
            below[leaf] = own[leaf]
            for node in _above(leaf, parent):
                below[node] += own[leaf]
                leaves[node] += 1
    order = []
    while inner:
        strength, weakest = min(((own[node] - below[node]) / (leaves[node] - 1), node) for node in inner)
        order.append((strength, weakest))
        inner = [node for node in inner if node != weakest and weakest not in _above(node, parent)]
        fewer, worse = leaves[weakest] - 1, own[weakest] - below[weakest]
        for node in _above(weakest, parent):
            leaves[node] -= fewer
            below[node] += worse
    return order


def _above(node: int, parent: dict[int, int]) -> list[int]:
    """The ancestors of a node, nearest first."""
    path = []
    while node in parent:
        node = parent[node]
        path.append(node)
    return path


def _ends(tree: Any, cut: set[int]) -> NDArray[np.intp]:
    """For each node, where rows that reach it end once the nodes of `cut` are leaves."""
    ends = np.arange(tree.node_count, dtype=np.intp)
    todo = [(0, -1)]
    while todo:
        node, end = todo.pop()
        if end < 0 and node in cut:
            end = node
        if end >= 0:
            ends[node] = end
        if tree.children_left[node] >= 0:
            todo += [(int(tree.children_left[node]), end), (int(tree.children_right[node]), end)]
    return ends
