"""The forecast of busy nodes: causal, calibrated, told in words, and the forecaster that a control asks."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.node_series import NodeSeries, read_node_series
from foundation.errors import BadInputError
from lucid_models.model_format import CorruptModelError
from parts.node_sleep.demand.features import DemandFeatures, highest_after, mean_after
from parts.node_sleep.demand.model import DemandSettings, NodeDemandModel, demand_outcomes
from parts.node_sleep.demand.scorer import NodeDemandScorer
from parts.node_sleep.replay.control import SleepObservation, open_control
from parts.node_sleep.replay.settings import SleepSettings
from tests.reference import ROOT


def days_of(bins: NodeSeries, start: datetime, end: datetime) -> NodeSeries:
    inside = (bins.times_s >= start.timestamp()) & (bins.times_s < end.timestamp())
    return NodeSeries(
        float(bins.times_s[inside][0]),
        bins.step_s,
        bins.running[inside],
        bins.total[inside],
        bins.held[inside],
    )


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 50), min_size=20, max_size=200),
    near=st.integers(1, 12),
    data=st.data(),
)
def test_the_future_moves_no_feature(counts: list[int], near: int, data: st.DataObject) -> None:
    features = DemandFeatures(near, holidays=(date(1970, 1, 12),))
    values = np.array(counts, dtype=float)
    before = features.matrix(values, 1_000_200)
    row = data.draw(st.integers(0, len(counts) - 1))
    values[row + 1 :] = data.draw(st.sampled_from([1e6, 0.0]))
    np.testing.assert_array_equal(features.matrix(values, 1_000_200)[row], before[row])


def test_features_read_what_their_names_say() -> None:
    busy = np.random.default_rng(0).integers(0, 40, 1_600).astype(float)
    features = DemandFeatures(18, utc_offset_s=3_600, holidays=(date(1970, 1, 11),))
    row = dict(zip(features.names, features.matrix(busy, 0)[1_500], strict=True))
    now = busy[1_500]
    assert row["busy_lag_6"] == busy[1_494] - now
    assert row["busy_mean_18_bins"] == pytest.approx(busy[1_483:1_501].mean() - now)
    assert row["busy_median_144_bins"] == np.median(busy[1_357:1_501]) - now
    assert row["busy_deviation_6_bins"] == pytest.approx(busy[1_495:1_501].std())
    assert row["busy_highest_18_bins"] == busy[1_483:1_501].max() - now
    assert row["busy_after_18_bins_a_day_ago"] == pytest.approx(busy[1_357:1_375].mean() - busy[1_356])
    assert row["busy_after_36_bins_a_week_ago"] == pytest.approx(busy[493:529].mean() - busy[492])
    # Bin 1500 begins at 10:00 UTC on 1970-01-11, a Sunday.
    assert (row["hour"], row["day_of_week"], row["holiday"]) == (11.0, 6.0, 1.0)
    assert not any("month" in name or "year" in name for name in features.names)


def test_outcomes_are_what_followed_and_leave_out_what_was_not_counted() -> None:
    busy = np.arange(30.0)
    held = np.zeros(30, dtype=bool)
    held[12] = True
    outcomes = demand_outcomes(NodeSeries(0.0, 600.0, busy, busy + 5, held), 3)
    assert outcomes["near_mean"][4] == 6.0
    assert outcomes["near_peak"][4] == 7.0
    assert outcomes["far_mean"][4] == 7.5
    assert np.flatnonzero(np.isnan(outcomes["near_mean"])).tolist() == [9, 10, 11, 12, 27, 28, 29]
    assert np.isnan(mean_after(busy[:3], 3)).all()
    assert np.isnan(highest_after(busy[:3], 3)).all()


def test_one_forecast_equals_that_of_the_whole_series(node_demand_model, node_bins) -> None:
    scorer = node_demand_model.scorer
    every = node_demand_model.predict_all(node_bins)
    for at in (0, 300, 1_500, node_bins.running.size - 1):
        one = scorer.forecast(node_bins.running[: at + 1], node_bins.times_s[at])
        assert one.near_mean == pytest.approx(every["near_mean"][at], abs=1e-9)
        assert one.far_mean == pytest.approx(every["far_mean"][at], abs=1e-9)
        peaks = list(one.near_peak.values())
        assert list(one.near_peak) == [0.5, 0.8, 0.9, 0.95]
        assert peaks == sorted(peaks)


def test_a_control_takes_the_scorer_for_its_forecaster(node_demand_model, node_bins) -> None:
    rule = SleepSettings(control="forecast", near_bins=18, buffer_nodes=2, past_threshold=0.0)
    control = open_control(rule, node_demand_model.scorer)
    slept = 0
    for at in range(1_000, 1_288):
        busy = node_bins.running[: at + 1]
        now = int(busy[-1])
        seen = SleepObservation(node_bins.times_s[at] + 600, 40, 40, 0, now, 0)
        asleep = control.sleep(seen, busy)
        assert 0 <= asleep <= 40 - now - 2
        slept += asleep > 0
    assert 0 < slept < 288  # nodes sleep while demand falls, and not while it rises


def test_reasons_add_up_as_printed(node_demand_model, node_bins) -> None:
    rows = node_demand_model.features_of(node_bins)
    for at in range(200, 1_000, 37):
        reason = node_demand_model.explain_local(rows.iloc[at])["reason"]
        total, newest = (int(number) for number in re.findall(r"(\d+)(?= nodes? busy| are busy)", reason))
        signed = re.findall(r"(add|take)s? (\d+)", reason)
        assert total == newest + sum(int(n) if verb == "add" else -int(n) for verb, n in signed), reason
        assert "over the next 3 h" in reason


def test_holidays_are_a_feature_where_they_are_stated(node_bins) -> None:
    first = datetime.fromtimestamp(node_bins.start_s, UTC).date()
    stated = DemandSettings(near_bins=18, holidays=(first,))
    assert "holiday" in DemandFeatures(18, holidays=stated.holidays).names
    assert "holiday" not in DemandFeatures(18).names


def test_bad_histories_and_damaged_files_are_refused(node_demand_model, node_bins) -> None:
    scorer = node_demand_model.scorer
    for busy in ([], [3.0, np.nan], [-1.0]):
        with pytest.raises(BadInputError):
            scorer.forecast(np.array(busy), 0.0)
    with pytest.raises(BadInputError, match="days"):
        NodeDemandModel().fit(replace(node_bins, running=node_bins.running[:200]))
    document = scorer.to_data()
    document["model"]["peak_offsets"] = [3.0, 2.0, 1.0, 0.0]
    with pytest.raises(CorruptModelError, match="peak_offsets"):
        NodeDemandScorer.from_data(document)


@pytest.mark.slow
@pytest.mark.reference
def test_on_philly_it_beats_the_last_value_and_its_quantiles_hold() -> None:
    """December 2017, forecast from what was known by its first day (Helios figure 15)."""
    bins = read_node_series(ROOT / "data" / "philly" / "philly_node_sequence.csv.gz").bins()
    begin = datetime(2017, 12, 1, tzinfo=UTC)
    model = NodeDemandModel().fit(days_of(bins, datetime(2017, 10, 3, tzinfo=UTC), begin))
    until = days_of(bins, datetime(2017, 10, 3, tzinfo=UTC), datetime(2017, 12, 15, tzinfo=UTC))
    forecast, outcome = model.predict_all(until), demand_outcomes(until, 30)
    judged = (until.times_s >= begin.timestamp()) & ~np.isnan(outcome["far_mean"])
    for target in ("near_mean", "far_mean"):
        error = np.abs(forecast[target] - outcome[target])[judged].mean()
        assert error < np.abs(until.running - outcome[target])[judged].mean()
    covered = {
        quantile: (outcome["near_peak"] <= forecast["near_peak"] + offset)[judged].mean()
        for quantile, offset in model.scorer.peak_offsets.items()
    }
    assert 0.85 <= covered[0.9] <= 0.95
    assert 0.9 <= covered[0.95] <= 0.99
