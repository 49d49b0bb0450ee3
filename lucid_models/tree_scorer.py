"""Scores a classification tree with NumPy alone, node for node as the training library does.

A row goes left when its value, rounded to single precision as in the training library, is at most the node's
threshold; a missing value goes where the node sends missing values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.model_format import Fields, finite_list, rows_to_score

MAX_NODES = 100_000
LEAF = -1
# Above every single-precision number.
MAX_THRESHOLD = 1e300


@dataclass(frozen=True, eq=False)
class TreeScorer:
    """A binary tree as parallel arrays; node 0 is the root, children come after their parent.

    `feature` is LEAF at leaves; `probabilities` has shape (nodes, classes).
    """

    feature_names: tuple[str, ...]
    feature: NDArray[np.intp]
    threshold: NDArray[np.float64]
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    missing_left: NDArray[np.bool_]
    probabilities: NDArray[np.float64]
    samples: NDArray[np.float64]
    impurity: NDArray[np.float64]

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return int((self.feature == LEAF).sum())

    def apply(self, rows: NDArray[np.float64]) -> NDArray[np.intp]:
        """Index of the leaf that each row falls into."""
        matrix = rows_to_score(rows, self.feature_names, "tree")
        with np.errstate(over="ignore"):
            matrix = matrix.astype(np.float32).astype(np.float64)
        node = np.zeros(matrix.shape[0], dtype=np.intp)
        rows_index = np.arange(matrix.shape[0])
        while True:
            feature = self.feature[node]
            inner = feature != LEAF
            if not inner.any():
                return node
            value = matrix[rows_index, np.where(inner, feature, 0)]
            goes_left = np.where(np.isnan(value), self.missing_left[node], value <= self.threshold[node])
            node = np.where(inner, np.where(goes_left, self.left[node], self.right[node]), node)

    def predict_proba(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of each class in the leaf of each row, shape (rows, classes)."""
        return np.take(self.probabilities, self.apply(rows), axis=0)

    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.intp]:
        """Most frequent class of each row's leaf (the lower one on ties), shape (rows,)."""
        return np.asarray(np.argmax(self.predict_proba(rows), axis=1), dtype=np.intp)

    def path(self, row: Sequence[float]) -> list[tuple[int, bool]]:
        """Nodes from the root to the leaf with the direction taken (True: left); the leaf itself is not
        listed.
        """
        with np.errstate(over="ignore"):
            value = np.asarray(row, dtype=np.float32).astype(np.float64)
        node, steps = 0, []
        while self.feature[node] != LEAF:
            here = value[self.feature[node]]
            goes_left = (
                bool(self.missing_left[node]) if np.isnan(here) else bool(here <= self.threshold[node])
            )
            steps.append((node, goes_left))
            node = int(self.left[node] if goes_left else self.right[node])
        return steps

    def gini_importances(self) -> NDArray[np.float64]:
        """Share of the total impurity decrease that each feature brings; sums to 1 unless the tree is one
        leaf.
        """
        result = np.zeros(len(self.feature_names))
        weighted = self.samples * self.impurity
        for node in np.flatnonzero(self.feature != LEAF):
            gain = weighted[node] - weighted[self.left[node]] - weighted[self.right[node]]
            result[self.feature[node]] += max(float(gain), 0.0)
        total = float(result.sum())
        return result / total if total > 0 else result

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "feature_names": list(self.feature_names),
            "feature": [int(i) for i in self.feature],
            "threshold": finite_list(self.threshold),
            "left": [int(i) for i in self.left],
            "right": [int(i) for i in self.right],
            "missing_left": [bool(i) for i in self.missing_left],
            "probabilities": finite_list(self.probabilities),
            "samples": finite_list(self.samples),
            "impurity": finite_list(self.impurity),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any] | Fields, place: str = "tree") -> "TreeScorer":
        """Read what `to_data` wrote; refuses anything that is not one tree (a loop could never end)."""
        fields = data if isinstance(data, Fields) else Fields(data, place)
        names = fields.texts("feature_names", most=256, unique=True)
        feature = _integers(fields, "feature", LEAF, len(names) - 1)
        nodes = feature.size
        if not nodes:
            raise fields.fail("feature", "has no node")
        threshold = fields.numbers("threshold", most=MAX_NODES)
        left, right = (_integers(fields, name, LEAF, nodes - 1) for name in ("left", "right"))
        flags = fields.items("missing_left", most=MAX_NODES)
        if any(not isinstance(flag, bool) for flag in flags):
            raise fields.fail("missing_left", "holds something other than true and false")
        probabilities = fields.array(
            "probabilities", fields.items("probabilities", most=MAX_NODES), 0.0, 1.0, dimensions=2
        )
        samples = fields.numbers("samples", 0.0, 1e15, most=MAX_NODES)
        impurity = fields.numbers("impurity", 0.0, 1e6, most=MAX_NODES)
        for name, size in (
            ("threshold", threshold.size),
            ("left", left.size),
            ("right", right.size),
            ("missing_left", len(flags)),
            ("probabilities", probabilities.shape[0]),
            ("samples", samples.size),
            ("impurity", impurity.size),
        ):
            if size != nodes:
                raise fields.fail(name, f"has {size} entries for {nodes} nodes")
        inner = np.flatnonzero(feature != LEAF)
        children = np.concatenate([left[inner], right[inner]])
        parents = np.concatenate([inner, inner])
        if (children <= parents).any() or not np.array_equal(np.sort(children), np.arange(1, nodes)):
            raise fields.fail("left", "and right do not form one tree")
        return cls(
            tuple(names),
            feature,
            threshold,
            left,
            right,
            np.array(flags, dtype=np.bool_),
            probabilities,
            samples,
            impurity,
        )


def _integers(fields: Fields, name: str, low: int, high: int) -> NDArray[np.intp]:
    values = fields.numbers(name, low, high, most=MAX_NODES)
    if not np.array_equal(values, np.floor(values)):
        raise fields.fail(name, "holds a number that is not whole")
    return values.astype(np.intp)
