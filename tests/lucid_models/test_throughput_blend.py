"""Forecasts on short histories, on habits that change, and after an outage of the recorder."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_models.boosting import BoostingSettings
from lucid_models.evaluation.baselines import throughput_baselines
from lucid_models.model_format import CorruptModelError
from lucid_models.scoring import ThroughputScorer
from lucid_models.throughput.blend import SHARES, best_blend, held_out_bins
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings, binned_series
from tests.lucid_models.conftest import make_throughput

FAST = ThroughputSettings(
    boosting=BoostingSettings(objective="pseudo_huber:delta=0.1", bags=2, max_rounds=60, max_bins=32)
)
FORECASTS = st.lists(
    st.tuples(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e3)), min_size=1, max_size=40
)


@given(FORECASTS)
def test_the_blend_is_never_worse_than_the_median_where_it_was_chosen(rows) -> None:
    truth, learned, medians = np.array(rows).T
    blend = best_blend(truth, learned, medians)
    error = np.abs(blend.learned_share * learned + (1 - blend.learned_share) * medians - truth).mean()
    assert error <= np.abs(medians - truth).mean() + 1e-9
    assert blend.bins == truth.size
    assert min(blend.errors) == pytest.approx(error)


def test_without_a_held_out_bin_the_median_stands() -> None:
    blend = best_blend(np.array([np.nan, 1.0]), np.ones(2), np.array([1.0, np.nan]))
    assert (blend.learned_share, blend.bins) == (0.0, 0)


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
    record = model.scorer.training["blend"]
    assert record["learned_share"] == model.scorer.learned_share
    assert record["bins"] == held_out_bins(144 * days, 144)


def test_what_was_learned_leads_where_a_pattern_holds(throughput) -> None:
    assert ThroughputPredictModel(FAST).fit(throughput).scorer.learned_share >= 0.75


@pytest.fixture(scope="module")
def fitted():
    table = make_throughput(144 * 16)
    return table, ThroughputPredictModel(FAST).fit(table.iloc[: 144 * 14])


@pytest.mark.parametrize("share", SHARES)
def test_a_blended_forecast_is_explained_and_kept(fitted, share: float) -> None:
    table, model = fitted
    model = ThroughputPredictModel.from_data(model.to_data() | {})
    model.scorer.learned_share = share
    features = model.features_of(table)
    explained = model.explain_local(features.iloc[-1])
    added = explained["intercept"] + sum(term["contribution"] for term in explained["terms"])
    assert added == pytest.approx(explained["score"])
    assert max(added, 0.0) == pytest.approx(explained["prediction"])
    again = ThroughputScorer.from_data(model.to_data())
    np.testing.assert_array_equal(again.predict_rows(features.to_numpy()), model.predict(table))


def test_without_what_was_learned_a_forecast_is_the_rolling_median(fitted) -> None:
    table, model = fitted
    scorer = ThroughputScorer.from_data(model.to_data())
    scorer.learned_share = 0.0
    data = binned_series(table, "submitted_gpu_jobs")
    median = throughput_baselines(data.counts, 5, 600)["rolling_median_12"]
    said = scorer.predict_series(data.counts, data.first_bin_s)
    np.testing.assert_array_equal(said[144:], median[144:])


def test_a_model_of_before_stands_alone_and_a_wrong_share_is_refused(fitted) -> None:
    document = fitted[1].to_data()
    document["model"]["learned_share"] = 1.5
    with pytest.raises(CorruptModelError, match="learned_share"):
        ThroughputScorer.from_data(document)
    del document["model"]["learned_share"]
    assert ThroughputScorer.from_data(document).learned_share == 1.0


@pytest.mark.parametrize("share", SHARES)
@settings(max_examples=5, deadline=None)
@given(first=st.integers(144 * 8, 144 * 14))
def test_the_day_after_a_day_of_zeros_is_forecast_near_the_usual_level(fitted, share, first: int) -> None:
    table, model = fitted
    data = binned_series(table, "submitted_gpu_jobs")
    counts = data.counts.copy()
    counts[first : first + 144] = 0.0
    scorer = ThroughputScorer.from_data(model.to_data())
    scorer.learned_share = share
    after = slice(first + 144, first + 2 * 144)
    said = scorer.predict_series(counts, data.first_bin_s)[after]
    usual = scorer.predict_series(data.counts, data.first_bin_s)[after]
    assert np.isfinite(said).all()
    assert 0.5 * usual.mean() < said.mean() < 1.5 * usual.mean()
    assert said.max() < 2.0 * data.counts.max()
