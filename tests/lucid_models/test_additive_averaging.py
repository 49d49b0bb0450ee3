import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.errors import BadInputError
from lucid_models.additive_averaging import average_scorers
from lucid_models.additive_scorer import AdditiveScorer, Term
from lucid_models.boosting import BoostingSettings, boost

NAMES = ("a", "b")
CUTS = st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]), unique=True, max_size=5).map(sorted)


@st.composite
def scorers(draw: st.DrawFn, link: str = "identity") -> AdditiveScorer:
    """A scorer over two features: a shape for each that is drawn, and perhaps a pair."""
    terms = []
    for features in draw(st.lists(st.sampled_from([(0,), (1,), (0, 1)]), unique=True, min_size=1)):
        cuts = tuple(np.array(draw(CUTS)) for _ in features)
        shape = tuple(one.size + 3 for one in cuts)
        rng = np.random.default_rng(draw(st.integers(0, 999)))
        spread = rng.uniform(0, 1, shape)
        terms.append(Term(features, cuts, rng.normal(size=shape), rng.uniform(0, 9, shape), spread))
    return AdditiveScorer(NAMES, terms, draw(st.floats(-5, 5)), link)


@settings(deadline=None)
@given(
    parts=st.lists(st.tuples(scorers(), st.floats(0.1, 5)), min_size=1, max_size=4),
    rows=st.lists(
        st.tuples(*[st.sampled_from([np.nan, np.inf, -np.inf, -1.0, 0.0, 0.5]) | st.floats(-3, 3)] * 2),
        min_size=1,
        max_size=20,
    ),
)
def test_scores_like_the_average(parts: list[tuple[AdditiveScorer, float]], rows: list) -> None:
    matrix, shares = np.array(rows), [share for _, share in parts]
    merged = average_scorers([scorer for scorer, _ in parts], shares)
    expected = np.average([scorer.score(matrix) for scorer, _ in parts], axis=0, weights=shares)
    np.testing.assert_allclose(merged.score(matrix), expected, rtol=0, atol=1e-12)
    saved = AdditiveScorer.from_data(merged.to_data())
    assert np.array_equal(saved.score(matrix), merged.score(matrix))
    # Evidence is neither lost nor made up.
    for term in merged.terms:
        told = [
            share * old.weights.sum()
            for scorer, share in parts
            for old in scorer.terms
            if old.features == term.features
        ]
        assert term.weights.sum() == pytest.approx(sum(told) / sum(shares))


def test_one_scorer_and_itself_are_that_scorer() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 2))
    chosen = BoostingSettings(bags=2, max_rounds=20, max_bins=16)
    scorer = boost(features, features[:, 0], NAMES, np.arange(300) // 50, chosen).scorer
    merged = average_scorers([scorer, scorer])
    assert np.array_equal(merged.score(features), scorer.score(features))
    np.testing.assert_allclose(merged.importances(), scorer.importances())
    for old, new in zip(scorer.terms, merged.terms, strict=True):
        assert old.spread is not None
        assert new.spread is not None
        # The squares' differences round to about the root of the smallest double step.
        np.testing.assert_allclose(new.spread, old.spread, atol=1e-7)


def test_the_spread_is_that_within_and_between_the_models() -> None:
    def flat(score: float, spread: float) -> AdditiveScorer:
        table = np.full(3, score)
        return AdditiveScorer(
            ["x"], [Term((0,), (np.array([]),), table, np.ones(3), np.full(3, spread))], 0.0
        )

    spread = average_scorers([flat(1.0, 0.3), flat(3.0, 0.5)]).terms[0].spread
    assert spread == pytest.approx(np.sqrt((0.3**2 + 0.5**2) / 2 + 1.0))


def test_a_log_link_averages_to_the_geometric_mean() -> None:
    one, other = (
        AdditiveScorer(["x"], [Term((0,), (np.array([]),), np.full(3, score), np.ones(3))], 0.0, "log")
        for score in (0.0, 2.0)
    )
    merged = average_scorers([one, other])
    assert merged.predict(np.zeros((1, 1))) == pytest.approx(np.e)
    assert merged.terms[0].spread is None


@pytest.mark.parametrize(
    ("others", "shares", "says"),
    [
        ([AdditiveScorer(["b", "a"], [], 0.0)], None, "Scorer 1"),
        ([AdditiveScorer(NAMES, [], 0.0, "log")], None, "identity and log"),
        ([], [0.0], "shares"),
        ([], [1.0, 1.0], "shares"),
        ([], [np.nan], "shares"),
    ],
)
def test_what_cannot_be_averaged_is_named(others: list, shares: list | None, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        average_scorers([AdditiveScorer(NAMES, [], 0.0), *others], shares)


def test_nothing_cannot_be_averaged() -> None:
    with pytest.raises(BadInputError, match="no scorer"):
        average_scorers([])
