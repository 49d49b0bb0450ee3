import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from lucid_models.model_format import CorruptModelError
from lucid_models.packing.model import tree_of
from lucid_models.tree_scorer import TreeScorer

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module", params=[False, True], ids=["complete", "with missing values"])
def trained(request) -> tuple[DecisionTreeClassifier, TreeScorer]:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(300, 3)).round(2)
    scores = (features[:, 0] > 0).astype(int) + (features[:, 1] > 0.5)
    if request.param:
        features[rng.random(features.shape) < 0.15] = np.nan
    model = DecisionTreeClassifier(max_depth=6, random_state=0).fit(features, scores)
    return model, TreeScorer.from_data(tree_of(model, NAMES).to_data())


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_equals_the_training_library(trained, data: st.DataObject) -> None:
    model, tree = trained
    at_cut = st.sampled_from([cut for cut in tree.threshold.tolist() if abs(cut) < 1e30])
    beside = at_cut.map(lambda cut: float(np.nextafter(np.float32(cut), np.float32(np.inf))))
    double = at_cut.map(lambda cut: float(np.nextafter(cut, np.inf)))
    value = at_cut | beside | double | st.sampled_from([np.nan, 1e30, -1e30]) | st.floats(-4, 4)
    rows = np.array(data.draw(st.lists(st.tuples(value, value, value), min_size=1, max_size=20)))
    assert np.abs(tree.predict_proba(rows) - model.predict_proba(rows)).max() <= 1e-9
    assert (tree.predict(rows) == model.predict(rows)).all()
    for row, leaf in zip(rows, tree.apply(rows), strict=True):
        node = 0
        for at, left in tree.path(row):
            assert at == node
            node = int(tree.left[at] if left else tree.right[at])
        assert node == leaf


def test_gini_importances_equal_the_training_library(trained) -> None:
    np.testing.assert_allclose(trained[1].gini_importances(), trained[0].feature_importances_, atol=1e-9)


@pytest.mark.parametrize("child", [0, 1, -1])
def test_children_that_form_no_tree_are_refused(trained, child: int) -> None:
    data = trained[1].to_data()
    data["left"] = [child if left > 0 else left for left in data["left"]]
    with pytest.raises(CorruptModelError, match="do not form one tree"):
        TreeScorer.from_data(data)
