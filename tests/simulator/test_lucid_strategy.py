"""The dynamic sharing strategy, and the naive forecast that drives it where no model was trained."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from simulator.cluster.placement import FreeGpus
from simulator.job_view import JobView
from simulator.snapshot import NodePool, Snapshot
from simulator.stages.strategy import SharingStrategy, StrategySettings
from simulator.workload.forecast import ThroughputForecast, naive_forecast
from simulator.workload.job import Job
from simulator.workload.workload import Workload


def jobs_at(*times, gpus=2):
    return Workload(tuple(Job(f"j{i}", "vc", None, gpus, t, 10.0, 10.0, i) for i, t in enumerate(times)), {})


def capacity(gpus_per_hour, predicted, *, waiting=0, **chosen):
    pool = NodePool("vc", FreeGpus(10, 10))  # 100 GPUs
    for i in range(waiting):
        pool.queue.add(i, JobView(Job(f"w{i}", "vc", None, 1, 0.0, 10.0), i))
    forecast = ThroughputForecast(3_600, [1.0], [1.0], [gpus_per_hour], [predicted])
    settings = StrategySettings(apathetic_below=0.1, none_below=0.02, **chosen)
    return SharingStrategy(settings).capacity(Snapshot({"vc": pool}, forecast=forecast))


def test_low_and_not_rising_throughput_means_less_sharing():
    assert capacity(50, 50) == 2
    assert capacity(5, 5) == 1
    assert capacity(5, 5.1) == 2  # rising
    assert capacity(1, 1) is None
    assert capacity(1, 2) == 2


def test_who_waits_counts_as_load():
    assert capacity(1, 1, waiting=1) == 1
    assert capacity(1, 1, waiting=9) == 2


def test_the_setting_is_the_most_and_decides_alone_without_a_forecast():
    assert capacity(50, 50, sharing="apathetic") == 1
    assert capacity(50, 50, sharing="none") is None
    assert capacity(1, 1, dynamic_sharing=False) == 2
    pools = {"vc": NodePool("vc", FreeGpus(10, 10))}
    assert SharingStrategy(StrategySettings()).capacity(Snapshot(pools)) == 2


def test_a_forecast_is_made_of_the_last_bin_and_the_same_hour_of_the_days_before():
    day, hour = 86_400.0, 3_600.0
    times = [0.0, 10.0, 20.0, 23 * hour, day, day + 5, day + 10, day + 15, 2 * day]
    forecast = naive_forecast(jobs_at(*times))
    assert forecast.at(0) == (0, 0, 0, 0)
    assert forecast.at(hour) == (3, 3, 6, 6)  # there was no such hour before
    assert forecast.at(day) == (1, (1 + 3) / 2, 2, (2 + 6) / 2)
    assert forecast.at(2 * day).predicted_jobs_per_hour == (0 + (3 + 4) / 2) / 2


def test_shorter_bins_are_rates_too():
    assert naive_forecast(jobs_at(0.0, 600.0, 601.0), bin_s=600).at(1_200).jobs_per_hour == 12


@pytest.mark.parametrize("wrong", [{"bin_s": 0}, {"bin_s": 7_000}, {"days": 0}])
def test_bins_must_fill_a_day(wrong):
    with pytest.raises(BadInputError, match="divide a day"):
        naive_forecast(jobs_at(0.0), **wrong)


@given(
    times=st.lists(st.integers(0, 400_000), min_size=2, max_size=60),
    cut=st.integers(1, 100),
    shift=st.integers(1, 90_000),
)
def test_no_forecast_knows_the_future(times, cut, shift):
    times = sorted(float(time) for time in times)
    moment = 3_600.0 * cut
    moved = sorted(time if time < moment else time + shift for time in times)
    before, after = naive_forecast(jobs_at(*times)), naive_forecast(jobs_at(*moved))
    for bin_ in range(min(cut + 1, len(before.jobs_per_hour), len(after.jobs_per_hour))):
        assert np.allclose(before.at(bin_ * 3_600.0), after.at(bin_ * 3_600.0))
