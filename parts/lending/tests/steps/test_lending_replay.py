"""What an orchestrator knew and lent on past days: nothing of the future, and never what inference needs."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.lake import Lake
from foundation.errors import BadInputError
from foundation.site import Site
from parts.lending.load.series import BIN_S, InferenceSeries, read_inference_series
from parts.lending.replay.loaning_policy import LoaningPolicy
from parts.lending.replay.orchestrator import share_of_servers
from parts.lending.replay.settings import LoanSettings
from parts.lending.steps.lending_replay import KnownLoad, known_load, lent_servers, load_of, on_loan_at
from parts.lending.tests.steps.inference_days import FAST, START, inference_days
from parts.lending.usage.model import InferenceLoadModel
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.policies.registry import load_policy
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

FIRST, DAY = START.to_pydatetime(), timedelta(days=1)


@pytest.fixture(scope="module")
def series() -> InferenceSeries:
    return read_inference_series(inference_days(3))


@pytest.fixture(scope="module")
def forecast(series: InferenceSeries) -> KnownLoad:
    model = InferenceLoadModel(FAST).fit(series.first(2 * 288))
    return known_load(series, FIRST + 2 * DAY, FIRST + 3 * DAY, model.scorer, 0.95)


def test_the_newest_finished_bin_is_what_is_known(series: InferenceSeries) -> None:
    known = known_load(series, FIRST, FIRST + DAY)
    assert known.usage.size == 287  # before the first bin nothing had finished
    assert np.array_equal(known.present[1:], known.usage[:-1])
    assert known.believed is None
    service = known.service(FIRST.timestamp() + 100)
    in_use = share_of_servers(float(known.usage[0]), known.servers)
    assert [*service.servers_in_use(BIN_S, BIN_S + 1)] == [(BIN_S, in_use)]
    assert service.seen_usage is not None
    assert service.seen_usage[0] == known.present[0]


def test_a_replay_lends_by_what_was_known_and_is_short_by_what_then_was(series: InferenceSeries) -> None:
    known = known_load(series, FIRST, FIRST + DAY)
    service = replace(known.service(FIRST.timestamp()), name="inference")
    until_s = known.replay_times_s(FIRST.timestamp())[-1]
    jobs = tuple(Job(f"j{i}", "vc", None, 8, 600.0 * i, 9000.0) for i in range(int(until_s // 600)))
    played = Simulation(
        Scenario(Workload(jobs, {}), ClusterSpec({"vc": 1}), companions=(service,)),
        LoaningPolicy(load_policy("fifo"), LoanSettings(headroom=0.0)),
    )
    played.run()
    counted = played.result().summary["inference_short_pct"]
    bins = known.replay_times_s(FIRST.timestamp()) < jobs[-1].submit_time_s
    expected = 100.0 * known.short(lent_servers(known, LoanSettings(headroom=0.0)))[bins].mean()
    assert expected > 1
    assert counted == pytest.approx(expected, abs=0.5)


def test_what_comes_later_changes_nothing_that_was_known(
    series: InferenceSeries, forecast: KnownLoad
) -> None:
    scorer = InferenceLoadModel(FAST).fit(series.first(2 * 288)).scorer
    shorter = known_load(series.first(600), FIRST + 2 * DAY, FIRST + 3 * DAY, scorer, 0.95)
    count = shorter.usage.size
    assert 0 < count < forecast.usage.size
    assert np.array_equal(shorter.present, forecast.present[:count])
    assert shorter.believed is not None
    assert forecast.believed is not None
    assert np.array_equal(shorter.believed, forecast.believed[:count])


def test_a_high_quantile_lacks_servers_less_often_than_the_newest_bin(
    series: InferenceSeries, forecast: KnownLoad
) -> None:
    loans = LoanSettings(headroom=0.0)
    present = known_load(series, FIRST + 2 * DAY, FIRST + 3 * DAY)
    by_quantile = forecast.short_pct(lent_servers(forecast, loans))
    by_present = present.short_pct(lent_servers(present, loans))
    assert by_quantile is not None
    assert by_present is not None
    assert by_quantile < by_present / 2
    assert forecast.coverage[0.95] == pytest.approx(0.95, abs=0.04)


@given(st.floats(0, 0.3), st.integers(0, 5), st.sampled_from([0.0, 1800.0]))
def test_headroom_and_needed_servers_are_never_lent(headroom: float, kept: int, hold_s: float) -> None:
    known = known_load(read_inference_series(inference_days(0.5)), FIRST, FIRST + DAY)
    lent = lent_servers(known, LoanSettings(headroom=headroom, hysteresis_servers=kept, hold_s=hold_s))
    needed = np.ceil(known.present * known.servers - 1e-9)
    free = known.servers - needed - np.ceil(headroom * known.servers - 1e-9)
    assert (lent <= np.maximum(0, free)).all()
    assert (lent >= 0).all()


def test_the_most_on_loan_within_a_bin_counts() -> None:
    steps = [(0.0, 5), (300.0, 3), (450.0, 7), (900.0, 2)]
    assert on_loan_at(steps, np.array([-300.0, 0.0, 300.0, 600.0, 900.0, 1_200.0])).tolist() == [
        *(0, 5, 7, 7, 2, 2)
    ]
    assert on_loan_at([], np.array([0.0, 300.0])).tolist() == [0, 0]


def test_without_a_load_or_a_number_of_servers_the_reason_is_told(tmp_path) -> None:
    uri = str(tmp_path / "lake")
    assert "no" in str(load_of(Site(lake=uri, cluster="small")))
    Lake(uri).write_series("inference_load", "small", inference_days(1).assign(servers=None))
    assert "does not say how many servers" in str(load_of(Site(lake=uri, cluster="small")))


def test_a_window_without_load_and_a_quantile_that_is_not_forecast_are_refused(
    series: InferenceSeries,
) -> None:
    with pytest.raises(BadInputError, match="no inference load of known servers from 2020-05"):
        known_load(series, FIRST + 30 * DAY, FIRST + 31 * DAY)
    model = InferenceLoadModel(FAST).fit(series.first(2 * 288))
    with pytest.raises(BadInputError, match=r"no quantile 0\.77"):
        known_load(series, FIRST + 2 * DAY, FIRST + 3 * DAY, model.scorer, 0.77)
