"""The forecast of inference usage: causal, calibrated, a moving average for young clusters, told in words."""

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from lucid_models.model_format import CorruptModelError, FormatVersionError
from parts.lending.load.series import InferenceSeries
from parts.lending.replay.forecast import UsageForecaster
from parts.lending.usage.evaluation import evaluate_inference_load
from parts.lending.usage.features import LoadFeatures, ewma
from parts.lending.usage.fitting import judged_bins
from parts.lending.usage.model import InferenceLoadModel
from parts.lending.usage.quantile_tracker import STEP, TrackerStart, tracked_offsets
from parts.lending.usage.scorer import InferenceLoadScorer
from tests.reference import ROOT


@settings(max_examples=40, deadline=None)
@given(usage=st.lists(st.floats(0, 1), min_size=20, max_size=120), data=st.data())
def test_the_future_moves_no_feature(usage: list[float], data: st.DataObject) -> None:
    features = LoadFeatures()
    values = np.array(usage)
    before = features.matrix(values, 1_000_200)
    row = data.draw(st.integers(0, len(usage) - 1))
    values[row + 1 :] = data.draw(st.sampled_from([1.0, 0.0]))
    np.testing.assert_array_equal(features.matrix(values, 1_000_200)[row], before[row])


@settings(max_examples=40, deadline=None)
@given(usage=st.lists(st.floats(0, 1), min_size=1, max_size=60), first=st.integers(-60, 60))
def test_rows_alone_have_the_features_that_they_have_among_all(usage: list[float], first: int) -> None:
    rows = slice(first, None)
    alone = LoadFeatures().matrix(np.array(usage), 1_000_200, rows)
    np.testing.assert_array_equal(alone, LoadFeatures().matrix(np.array(usage), 1_000_200)[rows])


def test_features_read_what_their_names_say() -> None:
    usage = np.random.default_rng(0).random(60)
    features = LoadFeatures(utc_offset_s=3_600)
    row = dict(zip(features.names, features.matrix(usage, 0)[50], strict=True))
    now = usage[50]
    assert row["usage"] == now
    assert row["usage_lag_3"] == usage[47] - now
    assert row["usage_mean_6_bins"] == pytest.approx(usage[45:51].mean() - now)
    assert row["usage_median_5_bins"] == pytest.approx(np.median(usage[46:51]) - now)
    assert row["usage_deviation_10_bins"] == pytest.approx(usage[41:51].std())
    assert row["usage_highest_10_bins"] == usage[41:51].max() - now
    smoothed = usage[0]
    for value in usage[1:51]:
        smoothed += 0.3 * (value - smoothed)
    assert row["usage_ewma_30_pct"] == pytest.approx(smoothed - now)
    assert row["hour"] == pytest.approx(1 + 50 * 5 / 60)
    assert "hour" not in LoadFeatures(calendar=False).names


def test_what_is_said_of_a_bin_is_made_of_earlier_bins(inference_load_model, load_series) -> None:
    whole = inference_load_model.past_forecasts(load_series)
    assert whole.mean.size == load_series.usage.size + 1
    assert whole.mean[0] == whole.quantiles[0.9][0] == 1.0
    changed = replace(
        load_series, usage=np.where(np.arange(load_series.usage.size) < 900, load_series.usage, 0)
    )
    other = inference_load_model.past_forecasts(changed)
    np.testing.assert_array_equal(whole.mean[:901], other.mean[:901])
    for level in whole.quantiles:
        np.testing.assert_array_equal(whole.quantiles[level][:901], other.quantiles[level][:901])
    assert (whole.mean[902:] != other.mean[902:]).any()


def test_one_forecast_equals_that_of_the_whole_series(inference_load_model, load_series) -> None:
    forecaster: UsageForecaster = inference_load_model.scorer
    whole = inference_load_model.past_forecasts(load_series)
    for at in (0, 1, 11, 640, load_series.usage.size - 1):
        # The series' quantiles learn nothing of its gap, which lies behind bin 640.
        one = forecaster.forecast(load_series.usage[: at + 1], load_series.times_s[at])
        assert one.mean == pytest.approx(whole.mean[at + 1], abs=1e-12)
        levels = list(one.quantiles.values())
        assert levels == sorted(levels)
        assert all(0 <= level <= 1 for level in levels)
        if at < 700:
            assert one.quantiles[0.9] == pytest.approx(whole.quantiles[0.9][at + 1], abs=1e-12)
    with_gap = inference_load_model.scorer.forecast(
        load_series.usage, load_series.last_bin_start_s, load_series.gap
    )
    assert with_gap.quantiles[0.9] == pytest.approx(whole.quantiles[0.9][-1], abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=50, max_size=400), st.sampled_from([0.5, 0.9]))
def test_misses_of_a_quantile_are_bounded_by_its_change(errors: list[float], level: float) -> None:
    values = np.array(errors)
    offsets = tracked_offsets(TrackerStart(0.1, {level: 1.0}), values, np.ones(values.size, dtype=bool))[
        level
    ]
    missed = (values > offsets[:-1]).mean()
    # The multiple of the scale starts at 1 and moves by STEP x (missed - (1 - level)) a bin.
    moved = STEP * values.size * (missed - (1 - level))
    sizes, scale = np.abs(values), 0.1
    for size in sizes:
        scale = max(scale + 0.05 * (size - scale), 1e-4)
    assert offsets[-1] == pytest.approx(scale * (1.0 + moved), abs=1e-9)


def test_a_bin_that_was_not_measured_teaches_quantiles_nothing() -> None:
    errors = np.array([0.1, -0.2, 0.5, 0.0, 0.1])
    start = TrackerStart(0.1, {0.9: 1.0})
    judged = np.array([True, True, False, True, True])
    with_gap = tracked_offsets(start, errors, judged)[0.9]
    without = tracked_offsets(start, errors[judged], np.ones(4, dtype=bool))[0.9]
    assert with_gap[[0, 1, 2, 4, 5]].tolist() == without.tolist()


def test_below_two_days_nothing_is_learned_but_a_weight(load_series) -> None:
    young = load_series.first(400)
    model = InferenceLoadModel().fit(young)
    scorer = model.scorer
    assert scorer.member == "ewma"
    assert "hour" not in scorer.features.names
    np.testing.assert_allclose(model.predict(young), ewma(young.usage, scorer.ewma_weight))
    assert model.explain_global()["importances"] == {}
    assert "weighted mean" in model.explain_local(model.features_of(young).iloc[-1])["reason"]
    with pytest.raises(BadInputError, match="29 bins of inference load are too few"):
        InferenceLoadModel().fit(load_series.first(29))


def test_a_young_history_chooses_between_the_last_value_and_weighted_means() -> None:
    rng = np.random.default_rng(3)
    no_gap = np.zeros(240, dtype=bool)
    wandering = np.clip(0.5 + np.cumsum(rng.normal(0, 0.005, 240)), 0, 1)
    swinging = np.clip(0.5 + rng.normal(0, 0.1, 240), 0, 1)
    walk = InferenceLoadModel().fit(InferenceSeries(0.0, wandering, no_gap, None)).scorer
    assert walk.member == "last_value"
    np.testing.assert_array_equal(walk.predict_series(wandering, 0), wandering)
    noise = InferenceLoadModel().fit(InferenceSeries(0.0, swinging, no_gap, None)).scorer
    assert (noise.member, noise.ewma_weight) == ("ewma", 0.3)
    assert noise.start.scale > 5 * walk.start.scale, "quantiles begin at the errors of who answers"
    assert InferenceLoadScorer.from_data(walk.to_data()).member == "last_value"


def test_what_is_too_short_to_judge_is_forecast_by_the_middle_weight() -> None:
    wandering = np.clip(0.2 + 0.01 * np.arange(40), 0, 1)
    gap = np.zeros(40, dtype=bool)
    gap[::6] = True  # two of six bins cannot tell
    scorer = InferenceLoadModel().fit(InferenceSeries(0.0, wandering, gap, None)).scorer
    assert (scorer.member, scorer.ewma_weight) == ("ewma", 0.5)
    assert InferenceLoadModel().fit(
        InferenceSeries(0.0, wandering, np.zeros(40, dtype=bool), None)
    ).scorer.member == ("last_value")


def test_judged_bins_have_a_measured_window() -> None:
    gap = np.zeros(30, dtype=bool)
    gap[12] = True
    assert np.flatnonzero(judged_bins(gap)).tolist() == [10, 11, *range(23, 30)]


def test_reasons_add_up_as_printed(inference_load_model, load_series) -> None:
    rows = inference_load_model.features_of(load_series)
    for at in range(200, 1_000, 37):
        explained = inference_load_model.explain_local(rows.iloc[at])
        reason = explained["reason"]
        total, newest = (round(10 * float(text)) for text in re.findall(r"([\d.]+) %", reason)[:2])
        signed = re.findall(r"(add|take)s? (\d+)", reason)
        assert total == newest + sum(int(n) if verb == "add" else -int(n) for verb, n in signed), reason
        assert "over the next 5 min" in reason
        forecast = inference_load_model.predict(load_series)[at]
        assert explained["prediction"] == pytest.approx(forecast, abs=1e-9)
        assert explained["score"] == pytest.approx(forecast, abs=1e-9)


def test_bad_histories_and_damaged_files_are_refused(inference_load_model, load_series) -> None:
    scorer = inference_load_model.scorer
    for usage in ([], [0.3, np.nan], [-0.1], [1.1]):
        with pytest.raises(BadInputError):
            scorer.forecast(np.array(usage), 0.0)
    with pytest.raises(BadInputError, match="bins of 600 s"):
        inference_load_model.predict(replace(load_series, bin_s=600))
    document = scorer.to_data()
    document["model"]["multiples"] = document["model"]["multiples"][::-1]
    with pytest.raises(CorruptModelError, match="multiples"):
        InferenceLoadScorer.from_data(document)
    document = scorer.to_data()
    document["model"]["features"]["version"] = 99
    with pytest.raises(FormatVersionError, match="version 99"):
        InferenceLoadScorer.from_data(document)


def servegen(column: str) -> tuple[InferenceSeries, float]:
    """A public fleet's usage in ten-minute bins, and when its test begins (the eleventh day)."""
    table = pd.read_csv(ROOT / "data/lyra/servegen_rates_10min.csv.gz")
    rate = table[column].to_numpy(dtype=np.float64)
    gap = ~(rate > 0)
    usage = np.minimum(0.65 * rate / rate[~gap].mean(), 0.98)
    held = usage[np.maximum.accumulate(np.where(gap, 0, np.arange(usage.size)))]
    return InferenceSeries(float(table["time_s"].iloc[0]), held, gap, None, 600), 864_000.0


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize(("column", "most"), [("m_small", 0.90), ("m_large", 1.03)])
def test_on_public_fleets_it_keeps_up_with_the_last_value(column: str, most: float) -> None:
    series, test_start_s = servegen(column)
    rows: Mapping[str, dict] = {row["model"]: row for row in evaluate_inference_load(series, test_start_s)}
    ours = rows["inference_load"]
    assert ours["against_last_value"] <= most
    assert 0.88 <= ours["coverage_p90"] <= 0.92
    assert rows["same_time_yesterday"]["against_last_value"] > 4
