"""The wait model: made of what was known, honest about waits that are not over, calibrated."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.queue_log import QueueLog
from foundation.errors import BadInputError
from lucid_models.groups import medians, ranks, running_sums
from parts.waits.model.calibration import offsets_of_errors
from parts.waits.model.evaluation import MEDIAN, OURS, evaluate_waits
from parts.waits.model.features import WaitFeatures
from parts.waits.model.queue_moment import DAY_S, queue_at
from parts.waits.model.survival import ErrorDistribution
from parts.waits.model.wait_table import WaitTable
from parts.waits.tests.queue_logs import FAST_WAITS as FAST
from parts.waits.tests.queue_logs import make_queue_log, write_queue_log


@pytest.fixture(scope="module")
def log() -> QueueLog:
    return make_queue_log()


@settings(max_examples=15)
@given(number=st.integers(0, 11), seed=st.integers(0, 5))
def test_the_future_moves_no_feature(log: QueueLog, number: int, seed: int) -> None:
    now = float(log.moments_s[number])
    rng = np.random.default_rng(seed)
    jobs = {name: values.copy() for name, values in log.jobs.items()}
    for name in ("start_s", "end_s", "eligible_s"):
        later = ~(jobs[name] <= now)
        jobs[name][later] = now + rng.random(later.sum()) * 9 * DAY_S + 1
    unsubmitted = jobs["submit_s"] > now
    for name in ("cpus", "limit_s", "account", "partition"):
        jobs[name][unsubmitted] = rng.permutation(jobs[name][unsubmitted])
    seen = {name: values.copy() for name, values in log.seen.items()}
    seen["priority"][seen["moment_s"] > now] = 7.0
    features = WaitFeatures()
    np.testing.assert_array_equal(
        features.matrix(queue_at(log, now)),
        features.matrix(queue_at(replace(log, jobs=jobs, seen=seen), now)),
    )


def test_what_is_forecast_of_a_moment_is_made_of_what_was_known_then(log: QueueLog) -> None:
    number = 9
    now = float(log.moments_s[number])
    table = WaitTable.of(log)
    otherwise = replace(table, start_s=np.where(table.start_s <= now, table.start_s, now + 5 * DAY_S))
    whole, blind = (evaluate_waits(one, 8, FAST).said[OURS] for one in (table, otherwise))
    assert (table.start_s > now).any()
    here = table.moment == number
    np.testing.assert_array_equal(whole[here], blind[here])


def test_features_say_what_their_names_say(log: QueueLog) -> None:
    queue = queue_at(log, float(log.moments_s[6]))
    features = WaitFeatures()
    table = dict(zip(features.names, features.matrix(queue).T, strict=True))
    waiting = queue.waiting
    order = np.argsort(-waiting["priority"], kind="stable")
    row = int(order[5])
    same = waiting["partition"] == waiting["partition"][row]
    ahead = same & (waiting["priority"] > waiting["priority"][row])
    assert table["rank_of_partition"][row] == pytest.approx(np.log10(ahead.sum() + 1))
    assert table["waiting_of_partition"][row] == pytest.approx(np.log10(same.sum()))
    past = queue.started
    day = (past["partition"] == waiting["partition"][row]) & (past["start_s"] > queue.moment_s - DAY_S)
    assert table["starts_day_of_partition"][row] == pytest.approx(np.log10(day.sum() + 1))
    assert table["priority_gap_of_partition"][row] == pytest.approx(
        waiting["priority"][row] - np.median(past["priority"][day])
    )
    assert table["waited"][row] == pytest.approx(np.log10(queue.moment_s - waiting["submit_s"][row] + 1))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(-1e3, 1e3)), min_size=1, max_size=40),
)
def test_figures_by_group_are_those_of_each_group_alone(rows: list[tuple[int, float]]) -> None:
    codes = np.array([code for code, _ in rows])
    values = np.array([value for _, value in rows])
    order = np.argsort(values, kind="stable")
    middle, place, sums = medians(codes, values, 4), ranks(codes, order), running_sums(codes, values, order)
    for code in range(4):
        own = values[codes == code]
        assert middle[code] == pytest.approx(np.median(own)) if own.size else np.isnan(middle[code])
        assert sorted(place[codes == code]) == list(range(1, own.size + 1))
        np.testing.assert_allclose(np.sort(sums[codes == code]), np.sort(np.cumsum(np.sort(own))), atol=1e-6)


def test_waits_that_are_not_over_push_quantiles_up() -> None:
    errors = np.linspace(0, 1, 101)
    over = np.ones(101, dtype=bool)
    assert ErrorDistribution.of(errors, over).quantile(0.9) == pytest.approx(0.9)
    over[::2] = False
    assert ErrorDistribution.of(errors, over).quantile(0.5) > 0.6
    assert np.isnan(ErrorDistribution.of(errors, np.zeros(101, dtype=bool)).quantile(0.5))


def test_of_a_queue_that_stands_still_p90_is_the_largest_complete_error_a_least_bound() -> None:
    errors, over = np.arange(10.0), np.arange(10) < 3  # seven wait on, each longer than any that is over
    spread = ErrorDistribution.of(errors, over)
    assert spread.errors.tolist() == [0.0, 1.0, 2.0]
    assert spread.mass == pytest.approx([0.1, 0.1, 0.8])
    assert spread.quantile(0.9) == 2.0


@given(st.lists(st.tuples(st.floats(-3, 3), st.booleans()), min_size=1, max_size=30), st.floats(-4, 4))
def test_a_wait_that_goes_on_is_longer_than_so_far(rows: list[tuple[float, bool]], bound: float) -> None:
    spread = ErrorDistribution.of(np.array([e for e, _ in rows]), np.array([over for _, over in rows]))
    assert spread.mean_beyond(np.array([bound]))[0] >= bound
    assert spread.mass.sum() == pytest.approx(1.0) or not spread.mass.size


def test_a_new_partition_has_the_offsets_of_all() -> None:
    rng = np.random.default_rng(0)
    partition = np.repeat([0, 1], 500)
    errors = rng.normal(0, np.where(partition == 0, 0.1, 1.0))
    offsets = offsets_of_errors(errors, np.ones(1_000, dtype=bool), partition, np.ones(1_000))
    calm, wild, new = offsets.of([0, 1, 9])
    assert calm[1] < new[1] < wild[1]


def test_ours_learns_what_a_partition_alone_does_not_tell(log: QueueLog) -> None:
    table = WaitTable.of(log)
    found = evaluate_waits(table, 8, FAST, names=log.partition_name)
    by_model = {row["model"]: row for row in found.rows}
    assert by_model[OURS]["mse_log10"] < 0.8 * by_model[MEDIAN]["mse_log10"]
    judged = (table.moment >= 8) & ~np.isnan(table.start_s)
    assert by_model[OURS]["rows"] == by_model[MEDIAN]["rows"] == judged.sum()
    assert {"all", "gpu_jobs", "partition gpu"} <= {row["group"] for row in found.groups}
    with pytest.raises(BadInputError, match="leave nothing to test"):
        evaluate_waits(table, 99, FAST)


def test_a_log_of_next_to_nothing_is_forecast_all_the_same(tmp_path: Path) -> None:
    columns = ("eligible_time", "end_time", "partition_id", "account_id", "priority_y", "req_cpus")
    sizes = ("req_mem_total", "time_limit_sec", "gpus")
    log = write_queue_log(tmp_path, without=(*columns, *sizes))
    table = WaitTable.of(log)
    assert table.moment.size == int(log.seen["whole"].sum())
    found = evaluate_waits(table, 8, FAST, names=log.partition_name)
    said = found.said[OURS]
    assert np.isfinite(said[table.moment >= 8]).all()
