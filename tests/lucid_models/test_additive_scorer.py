import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpret.glassbox import ExplainableBoostingRegressor

from foundation.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.boosting import scorer_of

NAMES = ["a", "b", "c"]


def training_rows(rows: int = 800) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(rows, 3)).round(1)
    features[rng.random(features.shape) < 0.1] = np.nan
    known = np.nan_to_num(features)
    return features, np.exp(0.4 * known[:, 0] + 0.3 * known[:, 1] * known[:, 2]) + 0.1


@pytest.fixture(scope="module", params=["rmse", "gamma_deviance", "pseudo_huber:delta=1.0"])
def trained(request) -> tuple[ExplainableBoostingRegressor, AdditiveScorer]:
    features, target = training_rows()
    model = ExplainableBoostingRegressor(
        objective=request.param,
        interactions=2,
        outer_bags=2,
        max_rounds=80,
        max_bins=24,
        max_interaction_bins=8,
        n_jobs=1,
        feature_types=["continuous"] * 3,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(features, target)
    data = scorer_of(model, NAMES).to_data()
    return model, AdditiveScorer.from_data(data)


def test_pairs_are_covered(trained) -> None:
    assert {len(term.features) for term in trained[1].terms} == {1, 2}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_equals_the_training_library(trained, data: st.DataObject) -> None:
    model, scorer = trained
    cuts = np.unique(np.concatenate([cuts for term in scorer.terms for cuts in term.cuts]))
    at_cuts = st.sampled_from(cuts.tolist())
    beside = at_cuts.map(lambda cut: float(np.nextafter(cut, np.inf))) | at_cuts.map(
        lambda cut: float(np.nextafter(cut, -np.inf))
    )
    extreme = st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -0.0])
    value = at_cuts | beside | extreme | st.floats(-5, 5)
    rows = np.array(data.draw(st.lists(st.tuples(value, value, value), min_size=1, max_size=20)))
    expected = model.predict(rows)
    assert np.abs(scorer.predict(rows) - expected).max() <= 1e-9
    assert np.abs(scorer.contributions(rows) - model.eval_terms(rows)).max() <= 1e-9
    for row, score in zip(rows, scorer.score(rows), strict=True):
        assert abs(scorer.score_one(row.tolist()) - score) <= 1e-9


def test_many_rows_score_bit_for_bit_as_in_the_training_library(trained) -> None:
    model, scorer = trained
    features, _ = training_rows(9_000)
    assert np.array_equal(scorer.contributions(features), model.eval_terms(features))
    if scorer.link == "identity":
        assert np.array_equal(scorer.predict(features), model.predict(features))


def test_importances_equal_the_training_library(trained) -> None:
    model, scorer = trained
    np.testing.assert_allclose(scorer.importances(), model.term_importances(), atol=1e-9)


def test_a_wrong_number_of_features_is_named(trained) -> None:
    with pytest.raises(BadInputError, match=r"\(rows, 3\)"):
        trained[1].predict(np.zeros((2, 4)))
