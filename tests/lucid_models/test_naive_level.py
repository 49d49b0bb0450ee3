"""A short log's own history says whose jobs the naive estimate looks at; all jobs together teach no shape."""

import numpy as np
import pandas as pd
import pytest

from lucid_models.boosting import BoostingSettings
from lucid_models.duration.features import DurationFeatureSettings
from lucid_models.duration.level_search import LevelChoice, best_naive_level
from lucid_models.duration.levels import hierarchy, learned_features, with_naive_estimate
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel, job_mappings

QUICK = BoostingSettings(objective="pseudo_huber:delta=0.25", bags=2, max_rounds=40, max_bins=16)
SETTINGS = DurationSettings(log_boosting=QUICK, mean_boosting=QUICK)
ALONE = [("user",), ("size",), ("virtual_cluster",)]


def log(jobs: int = 240, seed: int = 0) -> pd.DataFrame:
    """Jobs whose user and size together set the run time; neither does alone."""
    rng = np.random.default_rng(seed)
    user, gpus, cluster = rng.integers(0, 3, jobs), rng.integers(0, 3, jobs), rng.integers(0, 3, jobs)
    typical = 4.0 + 2.0 * ((user + gpus) % 3)
    return pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(jobs)],
            "user": [f"u{number}" for number in user],
            "virtual_cluster": [f"v{number}" for number in cluster],
            "gpus": 2**gpus,
            "submit_time": pd.Timestamp("2021-01-04", tz="UTC") + pd.to_timedelta(np.arange(jobs) * 900, "s"),
            "duration_s": np.exp(typical + rng.normal(0.0, 0.2, jobs)),
        }
    )


def test_the_level_of_the_naive_estimate_is_the_one_that_was_nearest_to_the_truth() -> None:
    choice = LevelChoice(hierarchy(ALONE))
    assert {"user", "size"} <= set(best_naive_level(log(), choice, DurationFeatureSettings()))


def test_a_log_too_short_to_choose_levels_is_estimated_by_what_its_user_and_size_did() -> None:
    jobs = log(360)
    early, later = jobs[:200], jobs[200:].reset_index(drop=True)
    model = WorkloadEstimateModel(SETTINGS).fit(early)
    (naive,) = (name for name in model.scorer.state.names if name.endswith(":naive"))
    assert "user_size" in naive
    off = np.abs(np.log(model.predict_causal(later, earlier=early)) - np.log(later["duration_s"]))
    # The noise itself is off by 0.16 on average.
    assert off.mean() < 0.3


def test_a_level_with_the_naive_estimate_survives_saving() -> None:
    jobs = log(200)
    model = WorkloadEstimateModel(SETTINGS).fit(jobs)
    again = WorkloadEstimateModel.from_data(model.to_data())
    assert again.scorer.state.names == model.scorer.state.names
    assert again.predict(jobs) == pytest.approx(model.predict(jobs), rel=1e-12)


def test_the_naive_estimate_is_of_a_level_that_is_there_or_of_a_new_one_that_leans_on_it() -> None:
    levels = hierarchy(ALONE)
    assert [level.name for level in with_naive_estimate(levels, ("size",)) if level.naive] == ["size"]
    *before, added = with_naive_estimate(levels, ("user", "size"))
    assert tuple(before) == levels
    assert (added.name, added.parent, added.last_runs, added.flights) == ("user_size", "size", False, False)


def test_no_head_learns_from_what_all_jobs_did_unless_that_is_all_there_is() -> None:
    names = ["all:mean", "user:mean", "user:naive", "hour"]
    assert learned_features(names).tolist() == [1, 3]
    assert learned_features(["all:mean", "all:naive", "hour"]).tolist() == [0, 2]
    scorer = WorkloadEstimateModel(SETTINGS).fit(log()).scorer
    for head in (scorer.log_head, scorer.mean_head):
        assert not [name for name in head.term_names if "all:" in name]


def test_rivals_learn_from_the_same_features() -> None:
    jobs = log()
    model = WorkloadEstimateModel(SETTINGS).fit(jobs)
    rows, logarithm = model.training_rows(jobs)
    assert rows.shape == (len(logarithm), learned_features(model.scorer.state.names).size)


def test_one_user_with_one_kind_of_job_is_estimated_by_its_last_runs() -> None:
    jobs = log().assign(user="one", virtual_cluster="one", gpus=1, duration_s=600.0)
    model = WorkloadEstimateModel(SETTINGS).fit(jobs)
    (estimate,) = model.scorer.estimate(job_mappings(jobs[-1:]))
    assert estimate.p50_s == pytest.approx(600.0, rel=0.05)
