"""Quantiles of run times follow their misses: by virtual cluster, and from jobs that ended alone."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_scheduler.memory.journal import JobEvent, JobEventKind
from live_scheduler.memory.online_state import OnlineState
from lucid_models.duration.calibration import LEVELS, STEP, QuantileOffsets, RunTimeCalibration
from lucid_models.duration.model import WorkloadEstimateModel, epoch_seconds, job_mappings
from lucid_models.duration.scorer import DurationScorer
from lucid_models.model_format import CorruptModelError, Fields

# Where the quantiles of a standard normal run time (log) are said to be.
SAID = (0.0, 1.2816)


def covered(excesses, clusters, offsets=None):
    """Whether each job that ends lay within the quantiles, shape (jobs, levels), and what was learned."""
    offsets = offsets or QuantileOffsets()
    within = []
    for excess, cluster in zip(excesses, clusters, strict=True):
        beyond = [excess - said for said in SAID]
        within.append([each <= offset for each, offset in zip(beyond, offsets.of(cluster), strict=True)])
        offsets.learn(cluster, beyond)
    return np.array(within), offsets


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 3), st.floats(0.3, 3), st.integers(1, 5))
def test_exchangeable_run_times_are_covered_within_what_chance_allows(seed, moved, scale, clusters):
    jobs = 4_000
    rng = np.random.default_rng(seed)
    names = [f"vc{number}" for number in rng.integers(0, clusters, jobs)]
    within, _ = covered(moved + scale * rng.normal(size=jobs), names)
    settled = within[1_000:]
    for level, share in zip(LEVELS, settled.mean(axis=0), strict=True):
        deviation = np.sqrt(level * (1 - level) / len(settled))
        assert abs(share - level) < 5 * deviation


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=50, max_size=400))
def test_whatever_runs_do_misses_differ_by_no_more_than_the_offset_has_moved(excesses):
    within, offsets = covered(excesses, ["vc"] * len(excesses))
    for level, share, offset in zip(LEVELS, within.mean(axis=0), offsets.of("vc"), strict=True):
        assert (1 - share) - (1 - level) == pytest.approx(offset / STEP / len(excesses), abs=1e-9)


def test_a_virtual_cluster_with_few_jobs_keeps_to_the_whole_log():
    rng = np.random.default_rng(1)
    _, offsets = covered(2.0 + rng.normal(size=3_000), ["large"] * 3_000)
    assert offsets.of("new") == tuple(offsets.of_all)
    offsets.learn("new", (0.0, 0.0))
    assert np.abs(np.subtract(offsets.of("new"), offsets.of_all)).max() <= STEP / 2


@pytest.mark.parametrize("seed", range(5))
def test_coverage_is_back_150_jobs_after_run_times_became_four_times_as_long(seed):
    rng = np.random.default_rng(seed)
    before, after = rng.normal(size=2_000), np.log(4.0) + rng.normal(size=1_000)
    _, offsets = covered(before, ["vc"] * 2_000)
    within, _ = covered(after, ["vc"] * 1_000, offsets)
    assert within[:30, 1].mean() < 0.75
    assert within[150:, 1].mean() == pytest.approx(0.9, abs=0.03)
    assert within[150:, 0].mean() == pytest.approx(0.5, abs=0.05)


def quantiles(model, jobs):
    return model.quantiles_causal(jobs, model.features_causal(jobs))


def test_nothing_that_happens_later_changes_a_quantile(duration_model, jobs):
    test = jobs.iloc[700:].reset_index(drop=True)
    moment = test["submit_time"].iloc[100]
    later = test.copy()
    open_then = later["end_time"] > moment
    later.loc[open_then, "duration_s"] *= 50
    later.loc[open_then, "end_time"] += pd.Timedelta(days=3)
    later.loc[101:, "virtual_cluster"] = "another"
    pd.testing.assert_frame_equal(
        quantiles(duration_model, test).iloc[:101], quantiles(duration_model, later).iloc[:101]
    )


def test_the_order_of_rows_and_an_index_that_repeats_change_nothing(duration_model, jobs):
    test = jobs.iloc[700:]
    shuffled = test.sample(frac=1, random_state=3)
    again = quantiles(duration_model, shuffled.set_axis([0] * len(shuffled)))
    expected = quantiles(duration_model, test).loc[shuffled.index]
    np.testing.assert_array_equal(again.to_numpy(), expected.to_numpy())


def test_names_of_virtual_clusters_tell_nothing_but_who_belongs_together():
    rng = np.random.default_rng(0)
    excesses, names = rng.normal(size=500), rng.choice(["a", "b", "c"], 500)
    other = {"a": "z", "b": "y", "c": "x"}
    within, _ = covered(excesses, names)
    renamed, _ = covered(excesses, [other[name] for name in names])
    assert (within == renamed).all()


def test_point_estimates_do_not_move(duration_model, jobs):
    test = jobs.iloc[700:]
    document = duration_model.to_data()
    document["model"]["calibration"]["offsets"]["of_all"] = [3.0, 4.0]
    moved = WorkloadEstimateModel.from_data(json.loads(json.dumps(document)))
    assert (moved.predict_causal(test) == duration_model.predict_causal(test)).all()
    told, expected = moved.estimate(test), duration_model.estimate(test)
    assert told.drop(columns="p90_s").equals(expected.drop(columns="p90_s"))
    assert (told["p90_s"] > expected["p90_s"]).all()
    mappings = job_mappings(test)
    assert (moved.scorer.quantiles(mappings)[0] > duration_model.scorer.quantiles(mappings)[0]).all()


def test_a_daemon_learns_what_the_replay_of_the_log_learns_also_across_a_restart(duration_model, jobs):
    test = jobs.iloc[700:].reset_index(drop=True)
    mappings = job_mappings(test)
    start, end = (epoch_seconds(test, column) for column in ("start_time", "end_time"))
    events = [
        JobEvent(at_s, kind, job["job_id"], job, duration_s)
        for place, job in enumerate(mappings)
        for at_s, kind, duration_s in (
            (job["submit_time_s"], JobEventKind.SUBMITTED, None),
            (start[place], JobEventKind.STARTED, None),
            (end[place], JobEventKind.ENDED, float(test["duration_s"][place])),
        )
    ]
    last_s = max(job["submit_time_s"] for job in mappings)
    events = sorted((event for event in events if event.at_s <= last_s), key=lambda event: event.at_s)
    expected = quantiles(duration_model, test).iloc[-1]
    queued = [{**mappings[-1]}]
    for restarts in (False, True):
        online = OnlineState(duration_model.scorer, events if restarts else ())
        for number, event in enumerate(() if restarts else events):
            online.observe(event)
            if number % 50 == 0:
                online.quantiles(queued, last_s)
        online.quantiles(queued, last_s)
        said = online.scorer.calibration.offsets.of(mappings[-1]["virtual_cluster"])
        np.testing.assert_allclose(said, [expected["p50_offset"], expected["p90_offset"]], rtol=1e-12)


def test_a_calibration_is_saved_with_the_model(duration_model):
    scorer = duration_model.scorer
    assert scorer.calibration.offsets.by_cluster
    assert scorer.calibration.awaited.keys() == scorer.state.flights.keys()
    twin = DurationScorer.from_data(json.loads(json.dumps(scorer.to_data())))
    assert twin.calibration.to_data() == scorer.calibration.to_data()
    of_older_format = scorer.to_data()
    del of_older_format["model"]["calibration"]
    assert DurationScorer.from_data(of_older_format).calibration.offsets.of("vc0") == (0.0, 0.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [("awaited_quantiles", [1.0]), ("awaited", "j1"), ("awaited_virtual_clusters", []), ("offsets", None)],
)
def test_a_calibration_that_does_not_fit_together_is_refused(field, value):
    calibration = RunTimeCalibration()
    calibration.submitted("j1", "vc", SAID)
    with pytest.raises(CorruptModelError):
        RunTimeCalibration.from_data(Fields({**calibration.to_data(), field: value}, "model"))


def test_jobs_without_a_virtual_cluster_and_ends_of_unknown_jobs_do_no_harm(duration_model, jobs):
    bare = jobs.iloc[700:].drop(columns="virtual_cluster")
    assert np.isfinite(quantiles(duration_model, bare).to_numpy()).all()
    calibration = RunTimeCalibration()
    calibration.ended("nobody", 5.0)
    calibration.submitted("j1", "", SAID)
    calibration.withdrawn("j1")
    calibration.ended("j1", 5.0)
    assert calibration.offsets.of("") == (0.0, 0.0)
