"""One walk over a tree answers what a tree grown with each strength of pruning would."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from lucid_models.packing.pruning import predict_pruned, weakest_links


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("max_leaves", [2, 5, 30])
def test_answers_are_those_of_trees_pruned_by_sklearn(seed: int, max_leaves: int) -> None:
    rng = np.random.default_rng(seed)
    features = np.round(rng.normal(size=(80, 4)), 1)  # rounded: rows and strengths tie
    scores = np.where(features[:, 0] > 0.5, 2, rng.integers(0, 2, 80))
    new = np.round(rng.normal(size=(60, 4)), 1)

    def grow(alpha: float = 0.0) -> DecisionTreeClassifier:
        return DecisionTreeClassifier(
            ccp_alpha=alpha, max_leaf_nodes=max_leaves, min_samples_leaf=2, random_state=0
        )

    strengths = grow().cost_complexity_pruning_path(features, scores).ccp_alphas
    fitted = grow().fit(features, scores)
    assert [strength for strength, _ in weakest_links(fitted.tree_)] == strengths[1:].tolist()
    alphas = np.unique(np.concatenate([np.clip(strengths, 0.0, None), strengths[1:] / 2, [1.0]]))
    answers = predict_pruned(fitted, new, alphas)
    for alpha, answer in zip(alphas, answers, strict=True):
        np.testing.assert_array_equal(answer, grow(alpha).fit(features, scores).predict(new))
    assert np.unique(answers[-1]).size == 1  # the strongest leaves the root alone
    assert np.unique(answers[0]).size > 1


def test_a_tree_that_is_one_leaf_answers_its_class() -> None:
    fitted = DecisionTreeClassifier().fit(np.zeros((3, 2)), [1, 1, 1])
    assert weakest_links(fitted.tree_) == []
    assert predict_pruned(fitted, np.ones((2, 2)), [0.0, 0.5]).tolist() == [[1, 1], [1, 1]]
