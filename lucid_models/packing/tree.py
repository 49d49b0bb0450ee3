"""What a saved packing model is, with NumPy alone: scores, settings, tree, how a decision is explained."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import BadInputError, UnknownNameError
from lucid_models.model_format import Fields
from lucid_models.packing.reasons import packing_reason
from lucid_models.tree_scorer import LEAF, TreeScorer

PackingKind = Literal["tree", "pairwise"]
KINDS: tuple[str, ...] = get_args(PackingKind)
FEATURES = ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "amp")


class SharingScore(IntEnum):
    """How heavily a job weighs on a partner; two jobs may share a GPU when their scores sum to at most
    GSS.
    """

    TINY = 0
    MEDIUM = 1
    JUMBO = 2


@dataclass(frozen=True)
class PackingSettings:
    """Thresholds on the mean normalised speed left to partners, and how the models are trained.

    above `tiny_above`: Tiny; from `medium_from` on: Medium; below: Jumbo (Lucid section 3.5.1 and 4.5).

    - `kind`: "tree", or "pairwise", which carries the tree too, since the scores come from it.
    - `max_leaves`: a tree with more would not be read; it is pruned further.
    - `pair_precision`: of the pairs that the pairwise model lets share, the part that is to run at a mean
      speed of at least `medium_from`, judged on models that were held out of its training.
    """

    kind: PackingKind = "tree"
    tiny_above: float = 0.95
    medium_from: float = 0.85
    max_leaves: int = 5
    pair_precision: float = 0.96
    min_samples_leaf: int = 3
    folds: int = 5
    repeats: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.medium_from < self.tiny_above < 2:
            raise BadInputError(
                f"The thresholds medium_from={self.medium_from} and tiny_above={self.tiny_above} do not rise "
                f"in (0, 2).",
                remedy="Choose for example 0.85 and 0.95.",
            )
        if self.kind not in KINDS:
            raise UnknownNameError("kind of packing model", self.kind, KINDS)
        if self.max_leaves < 2:
            raise BadInputError(
                f"A tree of at most {self.max_leaves} leaves tells nothing apart.", remedy="Allow 2 or more."
            )
        if not 0 < self.pair_precision <= 1:
            raise BadInputError(
                f"pair_precision is {self.pair_precision}.", remedy="Choose a share in (0, 1], such as 0.96."
            )


def packing_settings(kind: str) -> PackingSettings:
    """Settings of a kind by its name; raises UnknownNameError with the kinds that there are."""
    if kind not in KINDS:
        raise UnknownNameError("kind of packing model", kind, KINDS)
    return PackingSettings(kind="pairwise" if kind == "pairwise" else "tree")


def stack_metrics(*columns: ArrayLike) -> NDArray[np.float64]:
    """Scalars or arrays of the four solo metrics as one matrix (rows, 4)."""
    arrays = [np.atleast_1d(np.asarray(column, dtype=np.float64)) for column in columns]
    return np.stack(np.broadcast_arrays(*arrays), axis=1)


def read_settings(fields: Fields) -> PackingSettings:
    """Settings from their saved form."""
    low, high = fields.number("medium_from", 0.0, 2.0), fields.number("tiny_above", 0.0, 2.0)
    if not 0 < low < high < 2:
        raise fields.fail("tiny_above", f"is {high}, not above medium_from {low}")
    return PackingSettings(
        kind=packing_settings(fields.text("kind", choices=KINDS)).kind,
        max_leaves=fields.integer("max_leaves", 2, 10**6),
        pair_precision=fields.number("pair_precision", 1e-9, 1.0),
        tiny_above=high,
        medium_from=low,
        min_samples_leaf=fields.integer("min_samples_leaf", 1, 10**9),
        folds=fields.integer("folds", 2, 1000),
        repeats=fields.integer("repeats", 1, 1000),
        seed=fields.integer("seed", 0, 2**32 - 1),
    )


def read_tree(fields: Fields) -> TreeScorer:
    """The tree of a saved packing model, checked to read our four features and to name three classes."""
    tree = TreeScorer.from_data(fields.child("tree"))
    if tree.feature_names != FEATURES:
        raise fields.fail("tree", f"reads {', '.join(tree.feature_names)}, not {', '.join(FEATURES)}")
    if tree.probabilities.shape[1:] != (len(SharingScore),):
        raise fields.fail("tree", "does not give the share of each of the three Sharing Scores")
    return tree


def describe_node(tree: TreeScorer, node: int) -> dict[str, Any]:
    """One node and everything below it as plain data."""
    shares = tree.probabilities[node]
    result: dict[str, Any] = {
        "samples": float(tree.samples[node]),
        "score": SharingScore(int(np.argmax(shares))).name,
        "shares": {score.name: float(shares[score]) for score in SharingScore},
    }
    if tree.feature[node] != LEAF:
        result |= {
            "feature": tree.feature_names[tree.feature[node]],
            "threshold": float(tree.threshold[node]),
            "at_most": describe_node(tree, int(tree.left[node])),
            "above": describe_node(tree, int(tree.right[node])),
        }
    return result


def explain_path(tree: TreeScorer, row: Sequence[float]) -> dict[str, Any]:
    """The decisions from the root to the leaf of one job, with a sentence."""
    steps = tree.path(row)
    leaf = int(tree.apply(np.asarray([row], dtype=np.float64))[0])
    score = SharingScore(int(np.argmax(tree.probabilities[leaf])))
    decisions = [
        {
            "feature": tree.feature_names[tree.feature[node]],
            "value": None if np.isnan(row[tree.feature[node]]) else float(row[tree.feature[node]]),
            "threshold": float(tree.threshold[node]),
            "at_most": went_left,
        }
        for node, went_left in steps
    ]
    share = float(tree.probabilities[leaf, score])
    return {
        "model": "packing",
        "prediction": int(score),
        "unit": "Sharing Score",
        "score": score.name,
        "share": share,
        "decisions": decisions,
        "reason": packing_reason(score.name, decisions, share, float(tree.samples[leaf])),
    }
