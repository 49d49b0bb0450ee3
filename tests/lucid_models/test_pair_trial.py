"""Pairs of features are taken if the jobs that ended last gain by them."""

from dataclasses import replace

import numpy as np
import pytest

from lucid_models.boosting import BoostingSettings
from lucid_models.duration.heads import (
    HeadSettings,
    TrainingJobs,
    TriedPairs,
    learn_log_head,
    pairs_sentence,
    try_pairs,
)
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from tests.fixtures import small_jobs

FAST = BoostingSettings(objective="pseudo_huber:delta=0.25", bags=2, max_rounds=100, max_bins=16)
SETTINGS = HeadSettings(FAST, pairs=4, blocks=10, unpaired=())
JOBS = 2_400
EARLIER_SHARE = 0.75


def table(newest_slope: float) -> TrainingJobs:
    """Jobs that run long where two of their three features agree; in the newest quarter by another slope."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, (JOBS, 3))
    slope = np.where(np.arange(JOBS) < EARLIER_SHARE * JOBS, 2.0, newest_slope)
    logarithm = 6.0 + rows[:, 2] + slope * rows[:, 0] * rows[:, 1] + rng.normal(0.0, 0.1, JOBS)
    return TrainingJobs(rows, logarithm, np.arange(JOBS, dtype=np.float64), ("one", "other", "third"))


def tried(jobs: TrainingJobs, settings: HeadSettings = SETTINGS) -> TriedPairs:
    return try_pairs(*jobs.split_by_end(EARLIER_SHARE), settings)


def test_a_pair_by_which_the_newest_jobs_gain_is_taken_and_learned() -> None:
    head = learn_log_head(table(2.0), SETTINGS)
    assert {0, 1} in map(set, head.boosting.pairs)
    record = head.tried.to_data()
    assert record["best"] > 0
    assert record["held_out_jobs"] == JOBS / 4
    errors = record["mae_log10_by_pairs"]
    assert record["gain"] == pytest.approx(errors["0"] - errors[str(record["best"])], abs=2e-6)
    assert record["gain"] > 0.05


def test_pairs_that_held_only_before_are_left_out() -> None:
    head = learn_log_head(table(-2.0), SETTINGS)
    assert head.boosting.pairs == ()
    assert all(len(term.features) == 1 for term in head.scorer.terms)
    record = head.tried.to_data()
    assert (record["best"], record["gain"]) == (0, 0.0)
    assert len(record["mae_log10_by_pairs"]) > 1


def test_the_judging_jobs_teach_nothing() -> None:
    """With other run times of the newest jobs the heads that are tried are the same."""
    jobs = table(2.0)
    newest = np.arange(JOBS) >= EARLIER_SHARE * JOBS
    moved = replace(jobs, logarithm=np.where(newest, jobs.logarithm + 0.05 * jobs.rows[:, 0], jobs.logarithm))
    one, other = tried(jobs), tried(moved)
    assert one.best == other.best > 0
    assert one.scores.tolist() == other.scores.tolist()
    assert one.errors != other.errors


def test_jobs_judge_by_when_they_ended_and_not_by_when_they_were_submitted() -> None:
    jobs = replace(table(2.0), end_s=np.arange(JOBS, 0.0, -1.0))
    earlier, later = jobs.split_by_end(EARLIER_SHARE)
    assert later.rows.tolist() == jobs.rows[: JOBS // 4].tolist()
    assert earlier.end_s.max() < later.end_s.min()


def test_without_pairs_to_try_nothing_is_tried() -> None:
    head = learn_log_head(table(2.0), replace(SETTINGS, pairs=0))
    assert head.tried.to_data() == {"best": 0, "held_out_jobs": 0, "mae_log10_by_pairs": {}, "gain": 0.0}
    assert pairs_sentence(head.tried.to_data()) == ""


def test_the_choice_is_told_in_a_sentence() -> None:
    taken = tried(table(2.0)).to_data()
    sentence = pairs_sentence(taken)
    assert sentence.startswith("The estimate takes pairs of features together")
    assert f"{taken['mae_log10_by_pairs']['0']:.4f} with none" in sentence
    assert "takes no pairs of features together" in pairs_sentence(tried(table(-2.0)).to_data())
    assert pairs_sentence({}) == ""  # a model that was saved before


def test_a_model_records_and_explains_whether_it_takes_pairs() -> None:
    model = WorkloadEstimateModel(DurationSettings(log_boosting=FAST, mean_boosting=FAST, pairs=2)).fit(
        small_jobs(900)
    )
    record = WorkloadEstimateModel.from_data(model.to_data()).scorer.training["pairs"]
    assert record["held_out_jobs"] > 100
    assert record["best"] in {int(number) for number in record["mae_log10_by_pairs"]}
    assert model.explain_global()["pairs"] == pairs_sentence(record)
