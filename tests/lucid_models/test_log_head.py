"""The log head leans on the naive estimate as far as that is what held-out jobs speak for."""

import numpy as np
import pytest

from lucid_models.boosting import BoostingSettings
from lucid_models.duration.heads import HeadSettings, LogHead, TrainingJobs, learn_log_head
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from lucid_models.evaluation.measures import log10_errors
from lucid_models.evaluation.rival_estimates import user_name_s
from tests.fixtures import small_jobs

FAST = BoostingSettings(objective="pseudo_huber:delta=0.25", bags=2, max_rounds=60, max_bins=16)
SETTINGS = HeadSettings(FAST, pairs=0, blocks=10, unpaired=())


def table(jobs: int, of_naive: float, of_fact: float) -> TrainingJobs:
    """Jobs whose log run time is a multiple of the naive estimate and of a fact, and noise."""
    rng = np.random.default_rng(0)
    naive, fact = rng.uniform(4.0, 9.0, jobs), rng.normal(0.0, 1.0, jobs)
    logarithm = of_naive * naive + of_fact * fact + rng.normal(0.0, 0.1, jobs)
    rows = np.stack([naive, fact], axis=1)
    rows[:3, 0] = np.nan  # no job had ended
    return TrainingJobs(rows, logarithm, np.arange(jobs, dtype=np.float64), ("user:naive", "log_gpus"))


def learned(jobs: TrainingJobs) -> LogHead:
    return learn_log_head(jobs, SETTINGS)


def test_where_the_naive_estimate_is_right_the_head_is_it_and_nothing_else_beyond_what_was_seen() -> None:
    head = learned(table(200, 1.0, 0.0))
    assert head.learned.share == 0.0
    unseen = np.array([[estimate, fact] for estimate in (1.5, 6.0, 14.0) for fact in (-9.0, 9.0)])
    assert head.scorer.score(unseen) == pytest.approx(unseen[:, 0], abs=0.02)


def test_the_more_held_out_jobs_speak_for_what_was_learned_the_more_it_weighs() -> None:
    few, many = (learned(table(jobs, 0.2, 2.0)).learned for jobs in (200, 2_000))
    assert 0.2 <= few.share < many.share < 1.0
    assert few.jobs == 50
    assert np.argmin(many.errors) == len(many.errors) - 1


def test_without_the_naive_estimate_the_shape_functions_stand_alone() -> None:
    jobs = table(400, 1.0, 0.5)
    head = learned(TrainingJobs(jobs.rows, jobs.logarithm, jobs.end_s, ("user:mean", "log_gpus")))
    assert head.learned.share == 1.0
    assert head.learned.errors == ()


def test_the_blend_is_one_additive_model_and_held_out_scores_are_its_own() -> None:
    jobs = table(400, 0.8, 0.5)
    head = learned(jobs)
    assert 0.0 < head.learned.share < 1.0
    assert head.scorer.score(jobs.rows) == pytest.approx(head.held_out_scores, abs=0.6)
    assert np.isfinite(head.held_out_scores).all()
    # Every job is counted in the shape of the naive estimate, the first three as missing.
    (term,) = (term for term in head.scorer.terms if term.features == (0,))
    assert term.weights.sum() == 400
    assert term.weights[0] == 3


def test_a_short_log_is_estimated_no_worse_than_by_a_moving_average() -> None:
    jobs = small_jobs(300)
    model = WorkloadEstimateModel(DurationSettings(log_boosting=FAST, mean_boosting=FAST)).fit(jobs[:200])
    later = jobs[200:].reset_index(drop=True)
    said = model.predict_causal(later, earlier=jobs[:200])
    truth = later["duration_s"].to_numpy(dtype=np.float64)
    ours, average = (log10_errors(truth, each).mean() for each in (said, user_name_s(jobs)[200:]))
    assert ours <= average
    assert model.scorer.training["learned"]["learned_share"] < 0.5


def test_three_short_runs_of_a_new_user_are_heard() -> None:
    jobs = small_jobs(300)
    model = WorkloadEstimateModel(DurationSettings(log_boosting=FAST, mean_boosting=FAST)).fit(jobs)
    state, at_s = model.scorer.state, model.scorer.state.now_s
    new = {"job_id": "n0", "user": "new", "name": "fresh", "gpus": 1, "submit_time_s": at_s}
    (before_s,) = model.scorer.predict([new])
    for number in range(3):
        state.observe_end({**new, "job_id": f"n{number}", "end_time_s": at_s + 5.0, "duration_s": 5.0})
    (after_s,) = model.scorer.predict([{**new, "submit_time_s": at_s + 6.0}])
    assert after_s < before_s / 4
