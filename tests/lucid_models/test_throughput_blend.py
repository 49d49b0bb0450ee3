"""Forecasts on short histories, on habits that change, and after an outage of the recorder."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_models.boosting import BoostingSettings
from lucid_models.evaluation.baselines import throughput_baselines
from lucid_models.model_format import CorruptModelError
from lucid_models.scoring import ThroughputScorer
from lucid_models.throughput.blend import Blend, PartWeights, best_blend, held_out_bins
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings, binned_series
from tests.lucid_models.conftest import make_throughput

FAST = ThroughputSettings(
    boosting=BoostingSettings(objective="pseudo_huber:delta=0.1", bags=2, max_rounds=60, max_bins=32)
)
FORECASTS = st.lists(st.tuples(*[st.floats(0, 1e3)] * 4), min_size=1, max_size=40)
WEIGHTS = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.25, 0.25, 0.5)]


@given(FORECASTS)
def test_the_blend_is_never_worse_than_the_median_where_it_was_chosen(rows) -> None:
    truth, *parts = np.array(rows).T
    said = np.stack(parts, axis=1)
    blend = best_blend(truth, said, day_bins=4)
    weights = blend.weights(said[:, 1])
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    error = np.abs((weights * said).sum(axis=1) - truth).mean()
    # Weights are whole hundredths.
    assert error <= np.abs(said[:, 1] - truth).mean() + 0.01 * said.max()
    assert blend.busy.bins + blend.silent.bins == truth.size


def test_without_a_held_out_bin_the_median_stands() -> None:
    said = np.array([[1.0, 1.0, 1.0], [1.0, np.nan, 1.0]])
    blend = best_blend(np.array([np.nan, 1.0]), said, day_bins=144)
    assert blend.busy.weights == blend.silent.weights == (0.0, 1.0, 0.0)
    assert blend.sentence() == "100% the rolling median"


def test_a_few_bins_draw_the_weights_to_the_median() -> None:
    truth = np.arange(1.0, 301.0)
    said = np.stack([truth, truth + 1.0, truth + 9.0], axis=1)
    learned = [best_blend(truth[:bins], said[:bins], day_bins=100).busy.weights[0] for bins in (24, 25, 300)]
    assert learned == [0.0, 0.5, pytest.approx(12 / 13, abs=0.01)]


@pytest.mark.parametrize("days", [3, 14])
def test_short_histories_are_no_worse_than_the_rolling_median(days: int) -> None:
    # Demand that wanders without a daily pattern: nothing of a few days holds tomorrow.
    rng = np.random.default_rng(days)
    table = make_throughput(144 * (days + 7))
    rate = np.exp(np.cumsum(rng.normal(0, 0.05, len(table))) % 3.0)
    table["submitted_gpu_jobs"] = rng.poisson(rate)
    model = ThroughputPredictModel(FAST).fit(table.iloc[: 144 * days])
    data = binned_series(table, "submitted_gpu_jobs")
    median = throughput_baselines(data.counts, 5, 600)["rolling_median_12"]
    errors = [np.abs(said - data.counts)[144 * days :].mean() for said in (model.predict(table), median)]
    assert errors[0] <= 1.02 * errors[1]
    blend = model.scorer.blend
    assert blend.busy.bins + blend.silent.bins == held_out_bins(144 * days, 144)


def test_what_was_learned_leads_where_a_pattern_holds(throughput) -> None:
    assert ThroughputPredictModel(FAST).fit(throughput).scorer.blend.busy.weights[0] >= 0.75


def test_the_newest_value_leads_where_a_series_moves_slowly() -> None:
    rng = np.random.default_rng(1)
    table = make_throughput(144 * 14)
    table["submitted_gpu_jobs"] = (1e5 * np.exp(np.cumsum(rng.normal(0, 0.02, len(table))))).round()
    model = ThroughputPredictModel(FAST).fit(table.iloc[: 144 * 10])
    data = binned_series(table, "submitted_gpu_jobs")
    naive = throughput_baselines(data.counts, 5, 600)
    said = (model.predict(table), naive["last_value"], naive["rolling_median_12"])
    ours, newest, median = (np.abs(one - data.counts)[144 * 10 :].mean() for one in said)
    assert ours <= 1.05 * newest < median
    assert model.scorer.blend.busy.weights[2] >= 0.5


def test_a_silence_is_forecast_no_worse_than_by_the_median() -> None:
    table = make_throughput(144 * 20)
    rng = np.random.default_rng(2)
    table.loc[144 * 14 :, "submitted_gpu_jobs"] = (rng.random(144 * 6) < 0.02).astype(int)
    model = ThroughputPredictModel(FAST).fit(table.iloc[: 144 * 14])
    data = binned_series(table, "submitted_gpu_jobs")
    median = throughput_baselines(data.counts, 5, 600)["rolling_median_12"]
    # From two hours on, when the silence is known.
    silence = slice(144 * 14 + 12, None)
    errors = [np.abs(said - data.counts)[silence].mean() for said in (model.predict(table), median)]
    assert errors[0] <= 1.01 * errors[1]


@pytest.fixture(scope="module")
def fitted():
    table = make_throughput(144 * 16)
    return table, ThroughputPredictModel(FAST).fit(table.iloc[: 144 * 14])


@pytest.fixture(scope="module")
def large():
    table = make_throughput(144 * 16)
    table["submitted_gpu_jobs"] = table["submitted_gpu_jobs"] * 100_000
    return table, ThroughputPredictModel(FAST).fit(table.iloc[: 144 * 14])


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_blended_forecast_is_explained_and_kept(fitted, weights) -> None:
    table, model = fitted
    model = _weighed(model, weights)
    features = model.features_of(table)
    explained = model.explain_local(features.iloc[-1])
    added = explained["intercept"] + sum(term["contribution"] for term in explained["terms"])
    assert added == pytest.approx(explained["score"])
    assert max(added, 0.0) == pytest.approx(explained["prediction"])
    assert tuple(explained["weights"].values()) == weights
    again = ThroughputScorer.from_data(model.to_data())
    np.testing.assert_array_equal(again.predict_rows(features.to_numpy()), model.predict(table))


def test_an_explanation_says_what_share_of_a_forecast_is_which(fitted) -> None:
    table, model = fitted
    reasons = [
        _weighed(model, weights).explain_local(model.features_of(table).iloc[-1])["reason"]
        for weights in ((1.0, 0.0, 0.0), (0.5, 0.25, 0.25))
    ]
    assert "The forecast is" not in reasons[0]
    assert reasons[1].endswith(
        " The forecast is 50% what was learned, 25% the rolling median and 25% the newest value."
    )


def test_without_what_was_learned_a_forecast_is_the_rolling_median(fitted) -> None:
    table, model = fitted
    scorer = _weighed(model, (0.0, 1.0, 0.0)).scorer
    data = binned_series(table, "submitted_gpu_jobs")
    median = throughput_baselines(data.counts, 5, 600)["rolling_median_12"]
    said = scorer.predict_series(data.counts, data.first_bin_s)
    np.testing.assert_array_equal(said[144:], median[144:])


@pytest.mark.parametrize(
    ("weights", "says"), [((1.5, 0.0, 0.0), "learned"), ((0.5, 0.25, 0.5), "do not sum to 1")]
)
def test_wrong_weights_are_refused(fitted, weights, says: str) -> None:
    document = _weighed(fitted[1], weights).to_data()
    with pytest.raises(CorruptModelError, match=says):
        ThroughputScorer.from_data(document)


@pytest.mark.parametrize("scale", [1, 100_000])
@pytest.mark.parametrize("weights", WEIGHTS)
@settings(max_examples=2, deadline=None)
@given(first=st.integers(144 * 8, 144 * 14))
def test_the_day_after_a_day_of_zeros_is_forecast_at_the_usual_level(
    fitted, large, scale: int, weights, first: int
) -> None:
    table, model = large if scale > 1 else fitted
    data = binned_series(table, "submitted_gpu_jobs")
    counts = data.counts.copy()
    counts[first : first + 144] = 0.0
    scorer = _weighed(model, weights).scorer
    said = scorer.predict_series(counts, data.first_bin_s)
    usual = scorer.predict_series(data.counts, data.first_bin_s)
    assert np.isfinite(said).all()
    # The newest bin that a forecast may read lies five bins back, and the end of the silence shows in three.
    day = slice(first + 144 + 24, first + 2 * 144)
    assert 0.75 * usual[day].mean() < said[day].mean() < 1.35 * usual[day].mean()
    assert said.max() < 2.0 * data.counts.max()


def test_a_day_of_zeros_in_training_teaches_nothing() -> None:
    table = make_throughput(144 * 18)
    silent = table.copy()
    silent.loc[144 * 6 : 144 * 7 - 1, "submitted_gpu_jobs"] = 0
    models = [ThroughputPredictModel(FAST).fit(one.iloc[: 144 * 16]) for one in (table, silent)]
    lost_bins = models[0].scorer.training["rows"] - models[1].scorer.training["rows"]
    assert 144 <= lost_bins < 144 + 36
    usual, said = (model.predict(table)[144 * 16 :] for model in models)
    assert np.abs(said - usual).mean() < 0.1 * usual.mean()


def _weighed(model: ThroughputPredictModel, weights) -> ThroughputPredictModel:
    """The model with the same weights at all times."""
    again = ThroughputPredictModel.from_data(model.to_data())
    chosen = PartWeights(weights)
    again.scorer.blend = Blend(chosen, chosen)
    return again
