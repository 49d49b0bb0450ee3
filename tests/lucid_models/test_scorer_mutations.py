"""Whatever happens to a saved scorer: it is refused by the errors that say so, or it stays harmless."""

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from lucid_models.additive_scorer import AdditiveScorer, Term
from lucid_models.model_format import CorruptModelError
from lucid_models.packing.model import tree_of
from lucid_models.tree_scorer import TreeScorer

NAMES = ["a", "b"]
ROWS = np.array(
    [[0.0, 0.0], [np.nan, 1.0], [1e300, -1e300], [np.inf, -np.inf], [-0.3, np.nan], [1.5, 1.5], [0.5, -2.0]]
)


def additive() -> AdditiveScorer:
    rng = np.random.default_rng(0)
    one, two = np.array([-1.0, 0.5, 1.5]), np.array([0.0, 1.0])
    terms = [
        Term((0,), (one,), rng.normal(size=6), rng.uniform(0, 9, 6), rng.uniform(0, 1, 6)),
        Term((1,), (two,), rng.normal(size=5), rng.uniform(0, 9, 5)),
        Term((0, 1), (one, two), rng.normal(size=(6, 5)), rng.uniform(0, 9, (6, 5))),
    ]
    return AdditiveScorer(NAMES, terms, 0.25, "log")


def tree() -> TreeScorer:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(80, 2))
    features[rng.random(features.shape) < 0.2] = np.nan
    labels = rng.integers(0, 3, 80)
    return tree_of(DecisionTreeClassifier(max_depth=3, random_state=0).fit(features, labels), NAMES)


SAVED: dict[type[Any], dict[str, Any]] = {
    AdditiveScorer: additive().to_data(),
    TreeScorer: tree().to_data(),
}
RUBBISH = [
    None,
    True,
    -1,
    0,
    1,
    7,
    10**400,
    -(10**400),
    1e300,
    1e16,
    -1e16,
    0.5,
    5e-324,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "a",
    "identity",
    [],
    [[]],
    [[[1.0]]],
    {},
    {"features": []},
]


def places(node: Any) -> list[tuple[Any, Any]]:
    """Each (container, key) of a document."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
    return [place for key in keys for place in ((node, key), *places(node[key]))]


def damage(data: st.DataObject, document: dict[str, Any]) -> None:
    """One change somewhere in the document."""
    container, key = data.draw(st.sampled_from(places(document)))
    kind = data.draw(st.sampled_from(["replace", "delete", "repeat", "swap", "scale", "wrap"]))
    value = container[key]
    if kind == "delete":
        del container[key]
    elif kind == "repeat" and isinstance(container, list):
        container.insert(key, copy.deepcopy(value))
    elif kind == "swap":
        other = data.draw(st.sampled_from([k for k, _ in enumerate(container)] or [0]))
        other = list(container)[other] if isinstance(container, dict) else other
        container[key], container[other] = container[other], container[key]
    elif kind == "scale" and isinstance(value, int | float) and abs(value) < 1e100:
        container[key] = value * data.draw(st.sampled_from([-1, 2, 1e12, 1e-12, 1e200]))
    elif kind == "wrap":
        container[key] = [value]
    else:
        container[key] = copy.deepcopy(data.draw(st.sampled_from(RUBBISH)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(SAVED))
@settings(max_examples=100, deadline=None)
@given(data=st.data(), changes=st.integers(1, 3))
def test_a_damaged_scorer_is_refused_by_name_or_stays_harmless(
    kind: type[Any], data: st.DataObject, changes: int
) -> None:
    document = copy.deepcopy(SAVED[kind])
    for _ in range(changes):
        if places(document):
            damage(data, document)
    try:
        loaded = kind.from_data(document, "the model")
    except CorruptModelError as error:
        assert "the model" in str(error)  # noqa: PT017
        return
    again = loaded.to_data()
    json.dumps(again, allow_nan=False)
    assert kind.from_data(again).to_data() == again
    rows = np.resize(ROWS, (len(ROWS), len(loaded.feature_names)))
    if isinstance(loaded, AdditiveScorer):
        assert np.isfinite(loaded.predict(rows)).all()
        assert np.isfinite(loaded.contributions(rows)).all()
        assert np.isfinite(loaded.importances()).all()
        for row, score in zip(rows, loaded.score(rows), strict=True):
            assert loaded.score_one(row.tolist()) == pytest.approx(score, rel=1e-9, abs=1e-6)
    else:
        shares = loaded.predict_proba(rows)
        assert ((shares >= 0) & (shares <= 1)).all()
        assert np.isfinite(loaded.gini_importances()).all()
        for row, leaf in zip(rows, loaded.apply(rows), strict=True):
            steps = loaded.path(row.tolist())
            last, left = steps[-1] if steps else (0, True)
            assert leaf == ((loaded.left if left else loaded.right)[last] if steps else 0)


@pytest.mark.parametrize("kind", list(SAVED))
def test_an_undamaged_scorer_comes_back_equal(kind: type[Any]) -> None:
    assert kind.from_data(json.loads(json.dumps(SAVED[kind]))).to_data() == SAVED[kind]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("intercept",), float("nan"), "scorer.intercept is nan"),
        (("intercept",), 1e16, "scorer.intercept is 1e\\+16"),
        (("link",), "probit", "scorer.link is 'probit'"),
        (("terms", 1, "scores", 0), float("inf"), r"scorer.terms\[1\].scores holds a number outside"),
        (("terms", 1, "scores", 0), 1e16, r"scorer.terms\[1\].scores holds a number outside"),
        (("terms", 0, "weights", 2), -1.0, r"scorer.terms\[0\].weights holds a number outside"),
        (("terms", 0, "spread", 2), -1.0, r"scorer.terms\[0\].spread holds a number outside"),
        (("terms", 0, "spread"), [0.0], r"scorer.terms\[0\].spread has shape"),
        (("terms", 0, "cuts", 0, 0), 9.0, r"scorer.terms\[0\].cuts does not rise"),
        (("terms", 2, "cuts", 0), [], r"scorer.terms\[2\].scores has shape"),
        (("terms", 2, "features"), [0, 2], r"scorer.terms\[2\].features holds a number outside"),
        (("terms", 2, "features"), [0.5, 1], r"scorer.terms\[2\].features does not name"),
        (("feature_names", 1), "a", "scorer.feature_names holds the same text twice"),
    ],
)
def test_the_field_that_is_wrong_is_named(path: tuple[Any, ...], value: Any, says: str) -> None:
    document = copy.deepcopy(SAVED[AdditiveScorer])
    node = document
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    with pytest.raises(CorruptModelError, match=says):
        AdditiveScorer.from_data(document)
