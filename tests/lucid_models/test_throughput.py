import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.ingest import read_throughput_file
from experiments.model_quality.throughput_comparison import compare_throughput
from experiments.model_quality.throughput_rivals import read_published, throughput_rivals
from foundation.errors import BadInputError
from lucid_models.boosting import BoostingSettings
from lucid_models.evaluation.throughput import evaluate_throughput
from lucid_models.model_format import CorruptModelError, FormatVersionError
from lucid_models.series.windows import DAY_S
from lucid_models.throughput.features import ThroughputFeatures, filled
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings, binned_series
from tests.reference import ROOT

FAST = ThroughputSettings(
    boosting=BoostingSettings(objective="pseudo_huber:delta=1.0", bags=2, max_rounds=40, max_bins=32)
)


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.one_of(st.just(0), st.integers(0, 50)), min_size=20, max_size=80),
    lead=st.integers(1, 12),
    bin_s=st.sampled_from([600, 3_600, 21_600]),
    data=st.data(),
)
def test_the_future_moves_no_feature(counts: list[int], lead: int, bin_s: int, data: st.DataObject) -> None:
    features = ThroughputFeatures(bin_s, lead, usual_silence_bins=data.draw(st.integers(0, 6)))
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
    assert row["log_median_12_bins"] == pytest.approx(np.log1p(339.5) - level, abs=1e-7)
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


@pytest.mark.slow
def test_forecasts_beat_the_naive_rivals_on_a_pattern(throughput) -> None:
    rows = evaluate_throughput(throughput, test_days=4, leads=("g5",), settings=FAST)
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
    reach = throughput_model.scorer.history_bins
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


def test_a_missing_day_leaves_forecasts_near_those_without_the_gap(throughput_model, throughput) -> None:
    data = binned_series(throughput, "submitted_gpu_jobs")
    whole = throughput_model.scorer.predict_series(data.counts, data.first_bin_s)
    gap = slice(1_500, 1_500 + 144)
    counts = data.counts.copy()
    counts[gap] = np.nan
    forecast = throughput_model.scorer.predict_series(counts, data.first_bin_s)
    assert np.isfinite(forecast).all()
    for span in (gap, slice(gap.stop, gap.stop + 144)):
        error, usual = (np.abs(one[span] - data.counts[span]).mean() for one in (forecast, whole))
        assert error < 1.15 * usual


def test_forecasts_follow_when_demand_doubles(throughput_model, throughput) -> None:
    data = binned_series(throughput, "submitted_gpu_jobs")
    counts = data.counts.copy()
    start = 1_500
    counts[start:] *= 2
    forecast = throughput_model.scorer.predict_series(counts, data.first_bin_s)
    before = throughput_model.scorer.predict_series(data.counts, data.first_bin_s)
    ratios = [
        # A whole day each, so that the time of day does not matter: from two hours on, and after four days.
        forecast[first : first + 144].sum() / before[first : first + 144].sum()
        for first in (start + 12, start + 4 * 144)
    ]
    assert 1.25 < ratios[0] < 2.2
    assert 1.45 < ratios[1] < 2.2


def test_unknown_bins_take_after_earlier_ones_alone() -> None:
    counts = np.array([np.nan, 4.0, 6.0, np.nan, 8.0, np.nan, np.nan, 2.0])
    np.testing.assert_array_equal(filled(counts, 3), [np.nan, 4.0, 6.0, 6.0, 8.0, 6.0, 6.0, 2.0])


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.one_of(st.integers(0, 30), st.none()), min_size=1, max_size=60),
    day_bins=st.integers(1, 12),
    cut=st.integers(0, 60),
)
def test_filling_reads_the_past_only(counts: list[int | None], day_bins: int, cut: int) -> None:
    values = np.array([np.nan if count is None else count for count in counts], dtype=float)
    whole = filled(values, day_bins)
    np.testing.assert_array_equal(whole[:cut], filled(values[:cut], day_bins))
    known = np.flatnonzero(~np.isnan(values))
    assert not np.isnan(whole[known[0] :] if known.size else whole[:0]).any()


def test_a_part_of_the_rows_is_what_all_of_them_would_be(throughput_model, throughput) -> None:
    data = binned_series(throughput, "submitted_gpu_jobs")
    scorer = throughput_model.scorer
    whole = scorer.predict_series(data.counts, data.first_bin_s)
    part = scorer.predict_series(data.counts, data.first_bin_s, slice(-300, -10))
    np.testing.assert_array_equal(part, whole[-300:-10])


def test_features_of_another_version_are_refused(throughput_model) -> None:
    document = throughput_model.to_data()
    for version in (1, 2, 4):
        document["model"]["features"]["version"] = version
        with pytest.raises(FormatVersionError, match=f"features of version {version}"):
            ThroughputPredictModel.from_data(document)
    del document["model"]["features"]["version"]
    with pytest.raises(CorruptModelError, match="version is missing"):
        ThroughputPredictModel.from_data(document)


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"lead_bins": 0}, "lead of 0 bins"),
        ({"missing_bins": "?"}, "'zero'"),
    ],
)
def test_bad_settings_are_refused(chosen, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        ThroughputSettings(**chosen)


@pytest.mark.parametrize("bin_s", [3_600, 21_600])
def test_bins_of_other_lengths(throughput, bin_s: int) -> None:
    coarse = throughput.groupby(throughput["bin_start"].dt.floor(f"{bin_s}s"), as_index=False).agg(
        bin_start=("bin_start", "first"), submitted_gpu_jobs=("submitted_gpu_jobs", "sum")
    )
    coarse = pd.concat(
        [coarse.assign(bin_start=coarse.bin_start + pd.Timedelta(days=16 * k), bin_s=bin_s) for k in range(4)]
    )
    train = coarse.iloc[: -DAY_S // bin_s].reset_index(drop=True)
    model = ThroughputPredictModel(FAST).fit(train, lead_bins=1)
    day = model.predict_next(train, DAY_S // bin_s)
    truth = coarse["submitted_gpu_jobs"].to_numpy()[-DAY_S // bin_s :]
    assert np.abs(day - truth).mean() < np.abs(truth - truth.mean()).mean()


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
def test_on_venus_jobs_at_g5_beat_lucid_and_every_naive_rival() -> None:
    folder = ROOT / "data" / "venus"
    published = read_published(folder / "lucid_september_predictions.csv")
    rows = compare_throughput(
        read_throughput_file(str(folder / "cluster_throughput.csv.gz"), time_zone="UTC"),
        leads=("g5",),
        rivals=throughput_rivals(trained=False, published=published),
    ).rows
    mae = {(row["series"], row["model"]): row["mae"] for row in rows}
    assert mae["jobs", "lucid_published"] == pytest.approx(4.125, abs=0.001)
    assert mae["jobs", "rolling_median_12"] == pytest.approx(3.989, abs=0.001)
    assert mae["jobs", "ebm"] <= 3.80
    assert mae["gpus", "ebm"] <= 40.5
