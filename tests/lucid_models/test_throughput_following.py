"""The weights of a forecast's parts follow the errors of the last day, and nothing that came later."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_models.boosting import BoostingSettings
from lucid_models.scoring import ThroughputScorer
from lucid_models.throughput.blend import followed_weights
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings, binned_series
from tests.lucid_models.conftest import make_throughput

FAST = ThroughputSettings(
    boosting=BoostingSettings(objective="pseudo_huber:delta=0.1", bags=2, max_rounds=60, max_bins=32)
)
TRAINED_BINS = 144 * 14
ERRORS = st.lists(
    st.lists(st.integers(0, 1_000) | st.none(), min_size=3, max_size=3), min_size=1, max_size=30
)


def as_errors(rows: list[list[int | None]]) -> np.ndarray:
    return np.array(rows, dtype=float)


@given(rows=ERRORS, window=st.integers(1, 8), cut=st.integers(0, 30), power=st.integers(-3, 3))
def test_weights_are_shares_that_read_the_window_before_them_in_any_unit(
    rows: list[list[int | None]], window: int, cut: int, power: int
) -> None:
    errors = as_errors(rows)
    newest = np.arange(len(rows)) - 2
    weights = np.tile([0.5, 0.25, 0.25], (len(rows), 1))
    followed = followed_weights(weights, errors, newest, window)
    np.testing.assert_allclose(followed.sum(axis=1), 1.0)
    assert (followed >= 0).all()
    np.testing.assert_allclose(followed_weights(weights, errors * 2.0**power, newest, window), followed)
    later = errors.copy()
    later[cut:] = 7.0
    np.testing.assert_array_equal(
        followed_weights(weights, later, newest, window)[: cut + 2], followed[: cut + 2]
    )
    np.testing.assert_array_equal(followed[:2], weights[:2])  # they know no error
    older = followed_weights(
        weights[cut:], errors[max(cut - window - 1, 0) :], newest[cut:] - max(cut - window - 1, 0), window
    )
    np.testing.assert_array_equal(older, followed[cut:])


def test_the_part_that_was_off_least_gains() -> None:
    errors = np.tile([3.0, 1.0, 2.0], (100, 1))
    weights = np.array([[0.8, 0.1, 0.1]])
    said = [followed_weights(weights, errors, np.array([known]), 144)[0] for known in (-1, 9, 49, 99)]
    np.testing.assert_array_equal(said[0], weights[0])
    assert said[1][1] < said[2][1] < said[3][1]
    assert said[3][1] > 0.85


@pytest.fixture(scope="module")
def followed() -> tuple[np.ndarray, int, ThroughputScorer]:
    """Counts of three weeks, of which a model learned from two, and nothing comes in most of the last."""
    table = make_throughput(144 * 21)
    table.loc[TRAINED_BINS + 144 :, "submitted_gpu_jobs"] = 0
    data = binned_series(table, "submitted_gpu_jobs")
    scorer = ThroughputPredictModel(FAST).fit(table.iloc[:TRAINED_BINS]).scorer
    return data.counts, data.first_bin_s, scorer


def test_training_says_the_weights_until_errors_are_known(followed) -> None:
    counts, first_s, scorer = followed
    weights = scorer.weights_of_series(counts, first_s)
    static = replace(scorer.blend, followed_bins=0)
    chosen = static.weights(scorer.parts(scorer.features.matrix(counts, first_s))[:, 1])
    newest_of_training = TRAINED_BINS + scorer.features.lead_bins
    np.testing.assert_array_equal(weights[:newest_of_training], chosen[:newest_of_training])
    assert (weights[newest_of_training] != chosen[newest_of_training]).any()


def test_forecasts_read_the_past_only_and_no_more_than_they_say(followed) -> None:
    counts, first_s, scorer = followed
    forecasts = scorer.predict_series(counts, first_s)
    row = TRAINED_BINS + 100
    changed = counts.copy()
    changed[row - scorer.features.lead_bins + 1 :] = 99.0
    np.testing.assert_array_equal(scorer.predict_series(changed, first_s)[: row + 1], forecasts[: row + 1])
    part = scorer.predict_series(counts, first_s, slice(row, row + 9))
    np.testing.assert_array_equal(part, forecasts[row : row + 9])
    next_bins = scorer.predict_next(counts[: row - 4], first_s, 5)
    np.testing.assert_allclose(next_bins, forecasts[row - 4 : row + 1], rtol=1e-9)
    recent = counts[row - 4 - scorer.history_bins : row - 4]
    recent_s = first_s + (row - 4 - scorer.history_bins) * 600
    np.testing.assert_allclose(scorer.predict_next(recent, recent_s, 5), next_bins, rtol=1e-6)


def test_forecasts_are_no_errors_of_their_own(followed) -> None:
    counts, first_s, scorer = followed
    known = counts[: TRAINED_BINS + 100]
    further = scorer.predict_next(known, first_s, 50)
    believed = np.concatenate([known, further])
    taken_for_true = scorer.predict_series(believed, first_s)[known.size :]
    assert further[:5] == pytest.approx(taken_for_true[:5])
    assert (further[10:] != taken_for_true[10:]).any()


def test_a_silence_is_believed_within_hours_of_its_beginning(followed) -> None:
    counts, first_s, scorer = followed
    six_hours_in = TRAINED_BINS + 144 + 36
    after = slice(six_hours_in, six_hours_in + 144)
    static = ThroughputScorer.from_data(scorer.to_data())
    static.blend = replace(scorer.blend, followed_bins=0, silent=scorer.blend.busy)
    learned_alone = static.predict_series(counts, first_s)[after]
    scorer = ThroughputScorer.from_data(scorer.to_data())
    scorer.blend = replace(scorer.blend, silent=scorer.blend.busy)
    assert scorer.predict_series(counts, first_s)[after].mean() < 0.5 * learned_alone.mean()


def test_a_forecast_is_explained_by_the_weights_that_made_it(followed) -> None:
    table = make_throughput(144 * 21)
    model = ThroughputPredictModel(FAST).fit(table.iloc[:TRAINED_BINS])
    weights = model.weights_of(table)[-1]
    explained = model.explain_local(model.features_of(table).iloc[-1], weights)
    assert explained["prediction"] == pytest.approx(model.predict(table)[-1])
    assert list(explained["weights"].values()) == pytest.approx(weights.tolist())
    added = explained["intercept"] + sum(term["contribution"] for term in explained["terms"])
    assert max(added, 0.0) == pytest.approx(explained["prediction"])


def test_a_part_without_weight_that_is_far_better_leaves_the_others_theirs() -> None:
    bins = 86_400  # of a second
    errors = np.tile([0.0, 1.0, 1.0], (bins, 1))
    followed = followed_weights(np.array([[0.0, 0.75, 0.25]]), errors, np.array([bins - 1]), bins)
    assert followed.tolist() == [[0.0, 0.75, 0.25]]
