import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.errors import BadInputError
from lucid_models.boosting import BoostingSettings
from lucid_models.evaluation import evaluate_throughput
from lucid_models.throughput import ThroughputPredictModel, ThroughputSettings, binned_series
from lucid_models.throughput_features import DAY_S, ThroughputFeatures

FAST = ThroughputSettings(
    boosting=BoostingSettings(objective="pseudo_huber:delta=1.0", bags=2, max_rounds=40, max_bins=32)
)


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 50), min_size=20, max_size=80),
    lead=st.integers(1, 12),
    bin_s=st.sampled_from([600, 3_600, 21_600]),
    data=st.data(),
)
def test_the_future_moves_no_feature(counts: list[int], lead: int, bin_s: int, data: st.DataObject) -> None:
    features = ThroughputFeatures(bin_s, lead)
    values = np.array(counts, dtype=float)
    before = features.matrix(values, 1_000_000)
    row = data.draw(st.integers(0, len(counts) - 1))
    corrupted = values.copy()
    corrupted[max(row - lead + 1, 0) :] = data.draw(st.sampled_from([1e9, 0.0, np.nan]))
    np.testing.assert_array_equal(features.matrix(corrupted, 1_000_000)[: row + 1][row], before[row])


def test_every_lag_is_read_where_its_name_says() -> None:
    values = np.arange(400, dtype=float)
    features = ThroughputFeatures(600, 5, longest_s=2 * DAY_S)
    row = dict(zip(features.names, features.matrix(values, 0)[350], strict=True))
    level = np.log1p(np.arange(202, 346)).mean()
    assert row["log_level"] == pytest.approx(level, abs=1e-7)
    assert row["log_lag_5"] == pytest.approx(np.log1p(345) - level, abs=1e-7)
    assert row["log_lag_10"] == pytest.approx(np.log1p(340) - level, abs=1e-7)
    assert row["log_mean_3_bins"] == pytest.approx(np.log1p([343, 344, 345]).mean() - level, abs=1e-7)
    now = np.log1p([340, 341, 342, 343, 344, 345]).mean()
    rise = now - np.mean([np.log1p(np.arange(340 - 144 * day, 346 - 144 * day)).mean() for day in (1, 2)])
    assert row["log_level_over_days_6_bins"] == pytest.approx(rise, abs=1e-7)
    slots = [np.log1p(np.arange(344 - 144 * day, 357 - 144 * day)).mean() for day in (1, 2)]
    assert row["log_days_at_level_6_bins"] == pytest.approx(np.mean(slots) + rise - level, abs=1e-7)
    assert row["log_same_time_last_days"] == pytest.approx(np.log1p(350 - 216) - level, abs=1e-7)
    assert (row["hour"], row["day_of_week"]) == (
        pytest.approx((350 % 144) / 6),
        5.0,
    )  # 1970-01-03, a Saturday
    assert not any("month" in name or "date" in name or "week_" in name for name in features.names)


def test_local_time_shifts_the_calendar() -> None:
    features = ThroughputFeatures(3_600, 1, utc_offset_s=8 * 3_600)
    row = dict(zip(features.names, features.matrix(np.ones(24), 0)[20], strict=True))
    assert (row["hour"], row["day_of_week"]) == (4.0, 4.0)


def test_a_forecast_uses_bins_up_to_its_lead_only(throughput_model, throughput) -> None:
    forecast = throughput_model.predict(throughput)
    corrupted = throughput.copy()
    corrupted.loc[2_000:, "submitted_gpu_jobs"] = 999
    again = throughput_model.predict(corrupted)
    assert (forecast[:2_005] == again[:2_005]).all()
    assert (forecast[2_005:2_020] != again[2_005:2_020]).any()


def test_forecasts_beat_the_naive_rivals_on_a_pattern(throughput) -> None:
    rows = evaluate_throughput(throughput, test_days=4, leads=("g5",), rivals=False)
    mae = {(row["series"], row["model"]): row["mae"] for row in rows}
    assert mae["jobs", "ebm"] < min(mae["jobs", name] for name in ("last_value", "rolling_median_12", "zero"))


def test_predict_next_continues_predict(throughput_model, throughput) -> None:
    known = throughput.iloc[:2_000]
    direct = throughput_model.predict(throughput)[2_000:2_005]
    np.testing.assert_allclose(throughput_model.predict_next(known, 5), direct, rtol=1e-9)
    further = throughput_model.predict_next(known, 300)
    assert further.shape == (300,)
    assert np.isfinite(further).all()
    assert (further >= 0).all()
    np.testing.assert_array_equal(further[:5], throughput_model.predict_next(known, 5))


def test_what_lies_beyond_the_read_history_changes_no_forecast(throughput_model, throughput) -> None:
    reach = throughput_model.scorer.features.history_bins
    table = pd.concat([throughput, throughput.assign(bin_start=throughput.bin_start + pd.Timedelta(days=16))])
    whole = throughput_model.predict_next(table, 5)
    recent = throughput_model.predict_next(table.iloc[-reach:], 5)
    np.testing.assert_allclose(whole, recent, rtol=1e-6)


def test_missing_bins_are_unknown_or_zero(throughput) -> None:
    holes = throughput.drop(index=range(500, 560))
    series = binned_series(holes, "submitted_gpu_jobs")
    assert np.isnan(series.counts).sum() == 60
    assert (binned_series(holes, "submitted_gpu_jobs", "zero").counts[500:560] == 0).all()
    forecast = ThroughputPredictModel(FAST).fit(holes).predict(holes)
    assert forecast.shape == (len(holes),)
    assert np.isfinite(forecast).all()


def test_rows_may_come_in_any_order(throughput_model, throughput) -> None:
    shuffled = throughput.sample(frac=1.0, random_state=0)
    forecast = pd.Series(throughput_model.predict(shuffled), index=shuffled.index).sort_index()
    np.testing.assert_array_equal(forecast.to_numpy(), throughput_model.predict(throughput))


@pytest.mark.parametrize("days", [2, 5, 7, 8])
@pytest.mark.parametrize("lead", [1, 5, 200])
def test_a_history_of_days_is_enough(throughput, days: int, lead: int) -> None:
    short = throughput.iloc[: 144 * days]
    model = ThroughputPredictModel(FAST).fit(short, lead_bins=lead)
    assert np.isfinite(model.predict_next(short, 24)).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.iloc[:200], "days of throughput are too short"),
        (lambda t: t.iloc[:0], "is empty"),
        (lambda t: t.drop(columns="bin_s"), "lacks the column bin_s"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "same bin twice"),
        (lambda t: t.assign(bin_s=[600] * (len(t) - 1) + [300]), "mixes bins"),
        (lambda t: t.assign(submitted_gpu_jobs=-1), "negative count"),
    ],
)
def test_bad_tables_are_refused_with_a_reason(throughput, change, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        ThroughputPredictModel(FAST).fit(change(throughput))


def test_bursts_never_break_training(throughput) -> None:
    burst = throughput.copy()
    burst.loc[700, ["submitted_gpu_jobs", "submitted_gpus"]] = [5_000, 10_000_000]
    for series in ("submitted_gpu_jobs", "submitted_gpus"):
        forecast = ThroughputPredictModel(FAST).fit(burst, series).predict(burst)
        assert np.isfinite(forecast).all()
        assert np.median(forecast) < 50


@pytest.mark.reference
def test_on_venus_jobs_at_g5_beat_lucid_and_every_naive_rival(reference_data) -> None:
    folder = reference_data / "venus"
    rows = evaluate_throughput(
        folder / "cluster_throughput.csv.gz",
        published=folder / "lucid_september_predictions.csv",
        leads=("g5",),
        rivals=False,
    )
    mae = {(row["series"], row["model"]): row["mae"] for row in rows}
    assert mae["jobs", "lucid_published"] == pytest.approx(4.125, abs=0.001)
    assert mae["jobs", "rolling_median_12"] == pytest.approx(3.989, abs=0.001)
    assert mae["jobs", "ebm"] <= 3.80
    assert mae["gpus", "ebm"] <= 40.5
