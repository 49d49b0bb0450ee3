"""Packing Analyze Model: how much a job would slow a partner down that shares its GPUs.

A pruned decision tree over what the profiler measures of a job alone, as in Lucid section 3.5.1 and Figure 6.
The label of a configuration is the mean normalised speed that it leaves its measured partners, cut at two
thresholds into the Sharing Scores. The speeds of pairs serve as labels only and never reach the features.

The kind "pairwise" has, beside the tree, a model that predicts the speeds of two given jobs (pairwise).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import BadInputError
from lucid_models.model_format import Fields, make_document
from lucid_models.packing.completion import complete_pairs
from lucid_models.packing.pairwise import PairwiseScorer, read_pairwise, require_pairwise
from lucid_models.packing.pairwise_training import fit_pairwise
from lucid_models.packing.pruning import predict_pruned
from lucid_models.packing.tree import (
    FEATURES,
    PackingSettings,
    SharingScore,
    describe_node,
    explain_path,
    read_settings,
    read_tree,
    stack_metrics,
)
from lucid_models.tree_scorer import LEAF, MAX_THRESHOLD, TreeScorer

__all__ = [
    "FEATURES",
    "PackingAnalyzeModel",
    "PackingLabels",
    "PackingSettings",
    "SharingScore",
    "feature_matrix",
    "label_configurations",
    "mean_partner_speeds",
    "score_of_speed",
]

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PackingLabels:
    """Labels of the configurations that were measured in pairs.

    `unpaired` lists the configurations without a measured pair: they have no label and teach nothing.
    """

    job_types: tuple[str, ...]
    mean_partner_speed: NDArray[np.float64]
    scores: NDArray[np.intp]
    unpaired: tuple[str, ...]


def mean_partner_speeds(pairs: "pd.DataFrame") -> dict[str, float]:
    """Mean normalised speed that each configuration leaves its partners, over all its measured pairs."""
    import pandas as pd

    # Side by side, so that the sums run pair by pair.
    names = np.stack([pairs[f"job_type_{side}"].to_numpy(dtype=object) for side in (1, 2)], axis=1).ravel()
    speeds = np.stack([pairs[f"speed_{side}"].to_numpy(dtype=np.float64) for side in (2, 1)], axis=1).ravel()
    index, seen = pd.factorize(names)
    mean = np.bincount(index, weights=speeds) / np.bincount(index)
    return dict(sorted(zip(map(str, seen), mean.tolist(), strict=True)))


def label_configurations(
    solo: "pd.DataFrame", pairs: "pd.DataFrame", settings: PackingSettings | None = None
) -> PackingLabels:
    """Label every configuration of the solo table that has measured pairs (PROFILE_SCHEMA, PAIR_SCHEMA).

    Where few of the pairs are measured, the others count as the pairwise model expects them.
    """
    rules = settings or PackingSettings()
    speeds = mean_partner_speeds(complete_pairs(solo, pairs, rules))
    job_types = [str(name) for name in solo["job_type"]]
    paired = tuple(name for name in job_types if name in speeds)
    mean = np.array([speeds[name] for name in paired])
    return PackingLabels(
        paired,
        mean,
        score_of_speed(mean, rules),
        tuple(name for name in job_types if name not in speeds),
    )


def score_of_speed(speed: ArrayLike, settings: PackingSettings) -> NDArray[np.intp]:
    """Sharing Score of a mean normalised speed left to partners."""
    values = np.asarray(speed, dtype=np.float64)
    return np.where(values > settings.tiny_above, 0, np.where(values >= settings.medium_from, 1, 2)).astype(
        np.intp
    )


def feature_matrix(solo: "pd.DataFrame") -> NDArray[np.float64]:
    """The four solo metrics, shape (rows, 4), in the order of FEATURES."""
    missing = [name for name in FEATURES if name not in solo.columns]
    if missing:
        raise BadInputError(
            f"The solo profiles lack the columns {', '.join(missing)}.",
            remedy="Read them with read_solo_profiles.",
        )
    return solo[list(FEATURES)].to_numpy(dtype=np.float64)


class PackingAnalyzeModel:
    """Decision tree with minimal cost-complexity pruning; the amount of pruning is chosen by
    cross-validation, within `max_leaves`. A pairwise model beside it when the settings ask for one.
    """

    kind = "packing"

    def __init__(self, settings: PackingSettings | None = None) -> None:
        self.settings = settings or PackingSettings()
        self._tree: TreeScorer | None = None
        self.pairwise: PairwiseScorer | None = None
        self.training: dict[str, Any] = {}

    @property
    def tree(self) -> TreeScorer:
        """The fitted tree; raises BadInputError before `fit`."""
        if self._tree is None:
            raise BadInputError(
                "The packing model has not been fitted.", remedy="Call fit(solo, pairs) first."
            )
        return self._tree

    def fit(self, solo: "pd.DataFrame", pairs: "pd.DataFrame") -> "PackingAnalyzeModel":
        """Learn from solo profiles and measured pairs; raises BadInputError when fewer than two labels
        occur.
        """
        labels = label_configurations(solo, pairs, self.settings)
        table = solo.set_index("job_type").loc[list(labels.job_types)].reset_index()
        self.fit_labelled(feature_matrix(table), labels.scores)
        self.training |= {
            "configurations": len(labels.job_types),
            "without_pairs": len(labels.unpaired),
            "pairs": len(pairs),
        }
        if self.settings.kind == "pairwise":
            self.pairwise, self.training["pairwise"] = fit_pairwise(solo, pairs, self.settings)
        return self

    def fit_labelled(self, features: NDArray[np.float64], scores: NDArray[np.intp]) -> "PackingAnalyzeModel":
        """Learn from a feature matrix (rows, 4) and its Sharing Scores."""
        if np.unique(scores).size < 2:
            raise BadInputError(
                f"All {len(scores)} configurations have the same Sharing Score; a tree cannot learn from "
                f"that.",
                remedy="Measure configurations that load the GPU differently, or change the thresholds.",
            )
        alpha = self._choose_alpha(features, scores)
        fitted = self._unfitted_tree(alpha).fit(features, scores)
        self._tree = tree_of(fitted, FEATURES)
        self.training = {"ccp_alpha": alpha, "leaves": self._tree.leaves, "rows": len(scores)}
        return self

    def _unfitted_tree(self, alpha: float = 0.0) -> Any:
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(
            ccp_alpha=alpha,
            min_samples_leaf=self.settings.min_samples_leaf,
            # Grown best split first, so that what is kept lowers the error most.
            max_leaf_nodes=self.settings.max_leaves,
            random_state=self.settings.seed,
        )

    def _choose_alpha(self, features: NDArray[np.float64], scores: NDArray[np.intp]) -> float:
        """The strongest pruning within one standard error of the best cross-validated accuracy (Breiman's
        rule).
        """
        from sklearn.model_selection import RepeatedStratifiedKFold

        smallest = int(np.bincount(scores)[np.unique(scores)].min())
        folds = min(self.settings.folds, smallest)
        path = self._unfitted_tree().cost_complexity_pruning_path(features, scores).ccp_alphas
        edges = np.clip(path[:-1], 0.0, None)  # the last one prunes the tree to its root
        candidates = np.sqrt(edges * np.append(edges[1:], edges[-1:]))
        candidates = np.unique(np.round(candidates, 12))
        if folds < 2 or candidates.size == 0:
            return 0.0
        split = RepeatedStratifiedKFold(
            n_splits=folds, n_repeats=self.settings.repeats, random_state=self.settings.seed
        )
        # Shape (folds, candidates). One tree a fold answers for all candidates.
        accuracy = np.array(
            [
                (
                    predict_pruned(self._unfitted_tree().fit(features[a], scores[a]), features[b], candidates)
                    == scores[b]
                ).mean(axis=1)
                for a, b in split.split(features, scores)
            ]
        )
        mean = accuracy.mean(axis=0)
        best = int(np.argmax(mean))
        error = float(accuracy[:, best].std(ddof=1) / np.sqrt(len(accuracy)))
        return float(candidates[mean >= mean[best] - error].max())

    def predict(
        self, gpu_util_pct: ArrayLike, gpu_mem_util_pct: ArrayLike, gpu_mem_mib: ArrayLike, amp: ArrayLike
    ) -> NDArray[np.intp]:
        """Sharing Scores (0, 1, 2) of jobs from their solo metrics, shape (rows,)."""
        return self.tree.predict(stack_metrics(gpu_util_pct, gpu_mem_util_pct, gpu_mem_mib, amp))

    def predict_table(self, solo: "pd.DataFrame") -> NDArray[np.intp]:
        """Sharing Scores of a table with the columns of PROFILE_SCHEMA."""
        return self.tree.predict(feature_matrix(solo))

    def pair_speeds(
        self, first: NDArray[np.float64], second: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and lower speed of pairs, both (rows,), from the metrics of both jobs, (rows, 4) in the order
        of FEATURES; raises BadInputError unless the model is of the kind "pairwise".
        """
        return require_pairwise(self.pairwise).predict(first, second)

    def explain_pair(self, first: Sequence[float], second: Sequence[float]) -> dict[str, Any]:
        """What each feature adds to the speeds of one pair; errors as `pair_speeds`."""
        return require_pairwise(self.pairwise).explain(first, second)

    def explain_global(self) -> dict[str, Any]:
        """The tree as nested nodes and its Gini importances (Figure 6); explain_pairs has the rest."""
        tree = self.tree
        gini = tree.gini_importances()
        return {
            "model": self.kind,
            "unit": "Sharing Score",
            "importances": {name: float(gini[i]) for i, name in enumerate(FEATURES)},
            "leaves": tree.leaves,
            "tree": describe_node(tree, 0),
        }

    def explain_pairs(self) -> dict[str, dict[str, Any]]:
        """Importances and shape functions of the pairwise model's two heads, by name; empty without one."""
        return {} if self.pairwise is None else self.pairwise.explain_global()

    def explain_local(self, row: Sequence[float]) -> dict[str, Any]:
        """The decisions that lead to the score of one job; `row` in the order of FEATURES."""
        return explain_path(self.tree, row)

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        return make_document(
            self.kind,
            {
                "settings": asdict(self.settings),
                "tree": self.tree.to_data(),
                "pairwise": None if self.pairwise is None else self.pairwise.to_data(),
                "training": self.training,
            },
        )

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "PackingAnalyzeModel":
        """Read what `to_data` wrote; raises CorruptModelError."""
        fields = Fields(document, "model").child("model")
        model = cls(read_settings(fields.child("settings")))
        model._tree = read_tree(fields)
        model.pairwise = read_pairwise(fields, model.settings)
        model.training = fields.training()
        return model


def tree_of(fitted: Any, feature_names: Sequence[str]) -> TreeScorer:
    """A fitted sklearn DecisionTreeClassifier as a TreeScorer over the three Sharing Scores."""
    inner = fitted.tree_
    feature = np.where(inner.children_left < 0, LEAF, inner.feature).astype(np.intp)
    shares = np.zeros((inner.node_count, len(SharingScore)))
    shares[:, fitted.classes_.astype(int)] = inner.value[:, 0, :] / inner.value[:, 0, :].sum(
        axis=1, keepdims=True
    )
    return TreeScorer(
        tuple(feature_names),
        feature,
        # The library writes an infinite threshold where missing values alone go right.
        np.clip(np.where(feature == LEAF, 0.0, inner.threshold), -MAX_THRESHOLD, MAX_THRESHOLD),
        inner.children_left.astype(np.intp),
        inner.children_right.astype(np.intp),
        inner.missing_go_to_left.astype(np.bool_),
        shares,
        inner.weighted_n_node_samples.astype(np.float64),
        inner.impurity.astype(np.float64),
    )
