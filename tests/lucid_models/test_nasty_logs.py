"""Training on untidy logs: holes of years, hours of data, constants, wrong dates. A model, or a
sentence.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.lake import Lake
from foundation.errors import BadInputError
from lucid_models.boosting import BoostingSettings
from lucid_models.evaluation.packing import evaluate_packing
from lucid_models.evaluation.throughput import evaluate_throughput
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings
from lucid_models.training_data import newest_stretch, read_training_jobs, read_training_throughput
from tests.fixtures import small_jobs, small_profiles, small_throughput

BIN_S, DAY_S, YEAR_S = 600, 86_400, 365 * 86_400
DAY_BINS = DAY_S // BIN_S
QUICK = ThroughputSettings(
    lead_bins=1, boosting=BoostingSettings("pseudo_huber:delta=0.1", bags=2, max_rounds=5, max_bins=16)
)


def series(stretches: list[tuple[int, list[int]]]) -> pd.DataFrame:
    """A throughput table of stretches (seconds after the one before, counts)."""
    starts, counts, next_s = [], [], 1_600_000_200 // DAY_S * DAY_S
    for after_s, values in stretches:
        next_s += after_s // BIN_S * BIN_S
        starts += range(next_s, next_s + BIN_S * len(values), BIN_S)
        counts += values
        next_s += BIN_S * len(values)
    column = np.array(counts, dtype=np.int64)
    return pd.DataFrame(
        {
            "bin_start": pd.to_datetime(starts, unit="s", utc=True),
            "bin_s": BIN_S,
            "submitted_jobs": column,
            "submitted_gpu_jobs": column,
            "submitted_gpus": column,
            "origin": "published",
        }
    )


gaps = st.sampled_from([0, 3 * 3_600, 40 * DAY_S, 2 * YEAR_S, 27 * YEAR_S])
values = st.one_of(
    st.builds(lambda bins, count: [count] * bins, st.integers(1, 4 * DAY_BINS), st.sampled_from([0, 1, 7])),
    st.builds(
        lambda bins, seed, most: np.random.default_rng(seed).integers(0, most, bins).tolist(),
        st.integers(1, 4 * DAY_BINS),
        st.integers(0, 9),
        st.sampled_from([2, 10, 10**9]),
    ),
)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.tuples(gaps, values), min_size=1, max_size=3))
def test_any_series_gives_forecasts_or_one_sentence(tmp_path_factory, stretches) -> None:
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    lake.write_throughput("c", series(stretches))
    refusal = None
    try:
        table = read_training_throughput(lake.uri, "c", None).table
        model = ThroughputPredictModel(QUICK).fit(table, "submitted_gpus")
    except BadInputError as error:
        refusal = error
    if refusal is not None:
        assert refusal.remedy
        assert len(str(refusal).splitlines()) == 1
    else:
        assert table["bin_start"].diff().max() <= pd.Timedelta(days=366)
        assert np.isfinite(model.predict_next(table, 3)).all()


def test_a_hole_of_27_years_is_not_filled_and_what_was_learned_from_is_said(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    week = np.random.default_rng(0).poisson(5, 7 * DAY_BINS).tolist()
    lake.write_throughput("c", series([(0, week), (27 * YEAR_S, week)]))
    data = read_training_throughput(lake.uri, "c", None)
    assert len(data.table) == 7 * DAY_BINS
    assert data.start.year == 2047
    (remark,) = data.remarks
    assert "silent for more than a year: from 2020-09-19 to 2047-" in remark
    assert "1,008 of 2,016 bins" in remark


def test_one_job_with_a_wrong_year_does_not_take_the_place_of_the_log(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    week = [3] * (7 * DAY_BINS)
    lake.write_throughput("c", series([(0, week), (27 * YEAR_S, [1])]))
    data = read_training_throughput(lake.uri, "c", None)
    assert (len(data.table), data.until.year) == (7 * DAY_BINS, 2020)
    lake.write_throughput("short", series([(0, [1] * 30), (2 * YEAR_S, [1] * 40)]))
    with pytest.raises(BadInputError, match=r"the longest has 40 bins, and 432 are needed"):
        read_training_throughput(lake.uri, "short", None)


@pytest.mark.slow
def test_the_model_itself_takes_a_hole_too() -> None:
    week = np.random.default_rng(0).poisson(5, 3 * DAY_BINS).tolist()
    model = ThroughputPredictModel(QUICK).fit(series([(0, week), (2 * YEAR_S, week)]), "submitted_gpus")
    assert 2 < model.predict_next(series([(0, week)]), 1)[0] < 9
    rows = evaluate_throughput(
        series([(0, week), (2 * YEAR_S, week)]), test_days=1, leads=("g1",), settings=QUICK
    )
    assert all(np.isfinite(row["mae"]) for row in rows if row["model"] == "ebm")


@pytest.mark.parametrize(
    ("which", "kept"), [(slice(-1, None), 599), (slice(0, 1), 599), (slice(0, 300), 300)]
)
def test_jobs_of_other_years_are_left_out_of_run_times(tmp_path: Path, which: slice, kept: int) -> None:
    jobs = small_jobs()
    years = pd.Timedelta(days=365 * (27 if which.start == -1 else -27))
    times = ["submit_time", "start_time", "end_time"]
    for column in times:
        jobs.loc[jobs.index[which], column] += years
    lake = Lake(str(tmp_path))
    lake.write_jobs("c", jobs.sort_values("submit_time"))
    data = read_training_jobs(lake.uri, "c", None, max_jobs=10_000)
    assert (len(data.table), data.start.year, data.until.year) == (kept, 2020, 2020)
    assert f"{kept} of 600 jobs" in data.remarks[0]


def test_a_log_without_silences_is_one_stretch_however_short() -> None:
    found = newest_stretch(small_throughput(bins=3)["bin_start"], 1_000, "bins")
    assert (found.rows, found.remarks) == (slice(None), ())


def test_profiles_that_cannot_be_judged_are_named() -> None:
    solo, pairs = small_profiles()
    with pytest.raises(BadInputError, match="None of 0 pairs has solo profiles"):
        evaluate_packing(solo, pairs.iloc[:0])
    holed = solo.assign(gpu_util_pct=solo["gpu_util_pct"].where(solo.index != 4))
    with pytest.raises(BadInputError, match=r"1 solo profiles .* 'net4/data/64/0' has no gpu_util_pct"):
        evaluate_packing(holed, pairs)
