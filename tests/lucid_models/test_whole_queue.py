"""A queue that is handed over whole is read, estimated and explained exactly as its jobs are one by one."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_models.additive_scorer import AdditiveScorer, Term
from lucid_models.duration.features import DurationFeatureState
from lucid_models.duration.job_columns import FACTS
from lucid_models.duration.levels import PARTS, hierarchy
from lucid_models.duration.name_buckets import NameBuckets
from lucid_models.duration.queue_scorer import QueueScorer
from lucid_models.duration.scorer import DurationScorer, ResidualQuantiles

DAY_S = 86_400.0
# Every part, alone and with others, and a level of three parts.
PAIRS = [("user", part) for part in PARTS if part != "user"]
LEVELS = hierarchy(
    [*((part,) for part in reversed(PARTS)), *PAIRS, ("user", "name", "size")],
    means_only=[("size",), ("bucket",), ("virtual_cluster",)],
)

texts = st.sampled_from(["ann", "bob", "", None, 1, 1.0, True, math.nan, "a\x1fb", "A7", "a8"])
numbers = st.one_of(
    st.sampled_from([0, 1, 2, 8, True, None, math.nan, math.inf, "4", "many", 10**400, -1]),
    st.floats(0, 1e7),
)
times = st.one_of(st.floats(0, 40 * DAY_S), st.sampled_from([None, math.nan, "3600", -5.0]))
jobs = st.fixed_dictionaries(
    {"job_id": st.integers(0, 30).map("j{}".format)},
    optional={
        **dict.fromkeys(("user", "name", "virtual_cluster", "job_type", "account"), texts),
        **dict.fromkeys(("gpus", "cpus", "nodes", "time_limit_s", "gpu_util_pct"), numbers),
        "gpu_mem_mib": numbers,
        "submit_time_s": times,
    },
)
queues = st.lists(jobs, min_size=9, max_size=30)  # so many that they are read as columns
events = st.lists(
    st.tuples(st.sampled_from(["submit", "start", "end", "withdraw"]), jobs, st.floats(0, DAY_S)), max_size=40
)


def scorer(buckets: bool) -> DurationScorer:
    """Every level and fact, in a model that tells even neighbouring values apart."""
    state = DurationFeatureState(LEVELS, FACTS, None, NameBuckets(["a#", "bob"], 0.5) if buckets else None)
    rng = np.random.default_rng(1)
    cuts = np.linspace(0.0, 16.0, 120)
    terms = [
        Term((at,), (cuts,), rng.normal(0, 0.1, cuts.size + 3), np.ones(cuts.size + 3))
        for at in range(len(state.names))
    ]
    residuals = ResidualQuantiles(np.array([0.0]), np.array([0.1]), np.array([1.0]))
    head = AdditiveScorer(state.names, terms, 6.0)
    return DurationScorer(state, head, head, 60.0, residuals, 30 * DAY_S)


def happen(state: DurationFeatureState, what: str, job: dict, time_s: float) -> None:
    if what == "submit":
        state.observe_submit({**job, "submit_time_s": time_s})
    elif what == "start":
        state.observe_start(job["job_id"], time_s)
    elif what == "end":
        state.observe_end({**job, "end_time_s": time_s, "duration_s": 1.0 + time_s % 7_919})
    else:
        state.observe_withdrawal(job["job_id"])


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(queue=queues, buckets=st.booleans())
def test_columns_hold_what_each_job_says(queue: list[dict], buckets: bool) -> None:
    state = scorer(buckets).state
    assert state.keys_of_all(queue) == [state.keys_of(job) for job in queue]
    one_by_one = np.concatenate([state.facts_of_all([job]) for job in queue])
    np.testing.assert_array_equal(state.facts_of_all(queue), one_by_one)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(queue=queues, past=events, at_s=st.none() | st.floats(0, 60 * DAY_S), buckets=st.booleans())
def test_a_whole_queue_is_its_jobs_one_by_one_and_as_they_wait(queue, past, at_s, buckets) -> None:
    one = scorer(buckets)
    state, time_s = one.state, 0.0
    for what, job, elapsed_s in past:
        time_s += elapsed_s
        happen(state, what, job, time_s)
    queue = list({job["job_id"]: job for job in queue}.values())
    whole = one.features(queue, at_s)
    np.testing.assert_array_equal(whole, np.array([state.features(job, at_s) for job in queue]))
    predicted = one.predict(queue, at_s)
    assert predicted.tolist() == [one.predict([job], at_s)[0] for job in queue]
    assert one.estimate(queue, at_s) == [one.estimate([job], at_s)[0] for job in queue]
    if at_s is not None:
        standing = QueueScorer(one)
        standing.add(queue)
        assert standing.estimate(at_s) == pytest.approx(predicted, rel=1e-9)
    restarted = DurationFeatureState.from_data(json.loads(json.dumps(state.to_data(), allow_nan=False)))
    np.testing.assert_array_equal(one.with_state(restarted).features(queue, at_s), whole)


def test_a_queue_of_nothing_has_no_estimates() -> None:
    one = scorer(buckets=True)
    assert one.predict([]).shape == (0,)
    assert one.estimate([]) == []
    assert one.features([]).shape == (0, len(one.state.names))
    assert one.state.keys_of_all([]) == []


def test_facts_are_the_logarithms_and_hours_of_what_is_told() -> None:
    state = scorer(buckets=False).state
    friday_evening = 1_585_940_400.0  # 2020-04-03, 19:00 UTC
    job = {"gpus": 7, "cpus": 1e6, "nodes": 3, "time_limit_s": -1, "submit_time_s": friday_evening}
    told = dict(zip(state.facts, state.facts_of_all([job])[0].tolist(), strict=True))
    assert told["log_gpus"] == math.log1p(7)
    assert told["log_cpus"] == math.log1p(1e6)
    assert (told["nodes"], told["hour"], told["day_of_week"]) == (3.0, 19.0, 4.0)
    assert math.isnan(told["log_time_limit"])
    assert math.isnan(told["gpu_util_pct"])


@pytest.mark.parametrize("jobs_told", [1, 20])
def test_statistics_are_those_of_the_standard_library_to_the_last_bit(jobs_told: int) -> None:
    """Training and service agree on every processor: NumPy's own logarithms differ between them."""
    state = DurationFeatureState(hierarchy([("user",)]), ())
    for number in range(7):
        happen(state, "end", {"job_id": f"e{number}", "user": "ann"}, 1_000.0 + 333.3 * number)
    durations = [1.0 + (1_000.0 + 333.3 * number) % 7_919 for number in range(7)]
    at_s = 5e5 + 0.7
    job = {"job_id": "q", "user": "ann", "submit_time_s": 0.0}
    row = dict(zip(state.names, state.known_of([job] * jobs_told, at_s).features()[-1].tolist(), strict=True))
    assert row["user:log_count"] == math.log1p(7)
    assert row["user:last"] == math.log(durations[-1])
    assert row["user:last_two"] == 0.5 * (math.log(durations[-1]) + math.log(durations[-2]))
    assert row["user:median"] == sorted(math.log(duration) for duration in durations[-5:])[2]
    weight = log_sum = raw_sum = 0.0
    for duration in durations:
        decay = math.exp2(-333.3 / (30 * DAY_S))
        weight, log_sum, raw_sum = (
            sum_ * decay + more
            for sum_, more in ((weight, 1.0), (log_sum, math.log(duration)), (raw_sum, duration))
        )
    since = math.exp2(-(at_s - 1_000.0 - 6 * 333.3) / (30 * DAY_S))
    assert row["all:mean"] == pytest.approx(log_sum * since / (weight * since), rel=1e-12)
    assert row["all:raw_mean"] == pytest.approx(math.log(raw_sum / weight), rel=1e-12)
