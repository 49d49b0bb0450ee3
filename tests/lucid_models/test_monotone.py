import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer, Term
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from lucid_models.monotone import constrain, monotone_scores

numbers = st.floats(-5, 5, allow_nan=False)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    bins = draw(st.integers(1, 12))
    scores = draw(st.lists(numbers, min_size=bins, max_size=bins))
    weights = draw(st.lists(st.integers(0, 50), min_size=bins, max_size=bins))
    return np.array(scores), np.array(weights, dtype=float)


def one_feature(scores: np.ndarray, weights: np.ndarray) -> AdditiveScorer:
    """A scorer over x with the given bins, a missing-value bin of score 7 and an unseen one of 9."""
    cuts = np.arange(1.0, scores.size)
    term = Term((0,), (cuts,), np.r_[7.0, scores, 9.0], np.r_[3.0, weights, 0.0])
    other = Term((1,), (np.array([0.0]),), np.array([0.0, 1.0, -1.0, 0.0]), np.array([0.0, 4.0, 4.0, 0.0]))
    return AdditiveScorer(["x", "y"], [term, other], 0.5)


@settings(deadline=None)  # the first call loads sklearn
@given(shapes(), st.sampled_from(["rising", "falling"]))
def test_a_held_shape_keeps_its_direction_its_mean_and_its_missing_bin(shape, direction: str) -> None:
    scores, weights = shape
    before = one_feature(scores, weights)
    held = constrain(before, {"x": direction})
    after = held.scorer.terms[0].scores
    steps = np.diff(after[1:-1]) * (1 if direction == "rising" else -1)
    assert (steps >= -1e-9).all()
    assert (after[0], after[-1]) == (7.0, 9.0)
    assert (after[1:-1] * weights).sum() == pytest.approx((scores * weights).sum(), abs=1e-6)
    assert held.scorer.terms[1] is before.terms[1]
    rows = np.array([[-1.0, 0.0], [np.nan, 1.0], [2.5, -3.0]])
    np.testing.assert_allclose(held.scorer.score(rows), before.score(rows) + held.moved(rows), atol=1e-12)


@settings(deadline=None)  # the first call loads sklearn
@given(shapes(), st.sampled_from(["rising", "falling"]))
def test_no_other_monotone_shape_is_nearer(shape, direction: str) -> None:
    """Against the definition: the pooled value is the min-max of weighted means of intervals."""
    scores, weights = shape
    seen = weights > 0
    held = monotone_scores(scores, weights, direction)[seen]
    sign = 1.0 if direction == "rising" else -1.0
    y, w = sign * scores[seen], weights[seen]
    for k in range(y.size):
        mean = [
            min(np.average(y[i : j + 1], weights=w[i : j + 1]) for j in range(k, y.size))
            for i in range(k + 1)
        ]
        assert sign * held[k] == pytest.approx(max(mean), abs=1e-9)


def test_a_shape_that_rises_already_stays_as_it_is() -> None:
    rising = np.array([-1.0, 0.0, 0.0, 2.0])
    np.testing.assert_array_equal(monotone_scores(rising, np.array([1.0, 5.0, 0.0, 2.0]), "rising"), rising)


def test_what_cannot_be_held_is_refused_by_name() -> None:
    scorer = one_feature(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    with pytest.raises(BadInputError, match=r"'gpus'.*does not read.*Choose from: gpu_num, x, y"):
        constrain(scorer, {"gpus": "rising"}, optional=["gpu_num"])
    with pytest.raises(BadInputError, match=r"'x' is 'up'.*rising, falling"):
        constrain(scorer, {"x": "up"})
    with pytest.raises(BadInputError, match="log_gpus"):
        DurationSettings(monotone={"log_gpus": "upwards"})
    assert constrain(scorer, {"gpu_num": "rising"}, optional=["gpu_num"]).directions == {}
    pair = Term((0, 1), (np.array([1.0]), np.array([0.0])), np.zeros((4, 4)), np.ones((4, 4)))
    with pytest.raises(BadInputError, match="pair of features"):
        constrain(AdditiveScorer(["x", "y"], [pair], 0.0), {"x": "rising"})


def test_more_gpus_never_shorten_an_estimate(duration_model, jobs, duration_settings) -> None:
    def scores(model: WorkloadEstimateModel) -> np.ndarray:
        head = model.scorer.log_head
        term = head.terms[head.term_names.index("log_gpus")]
        return term.scores[1:-1]

    assert (np.diff(scores(duration_model)) >= -1e-12).all()
    assert duration_model.scorer.training["monotone"] == {"log_gpus": "rising"}
    before = duration_model.unconstrained.log_head
    position = before.term_names.index("log_gpus")
    falling = constrain(before, {"log_gpus": "falling"}).scorer.terms[position].scores[1:-1]
    assert (np.diff(falling) <= 1e-12).all()
    assert np.ptp(falling) < np.ptp(before.terms[position].scores[1:-1])
