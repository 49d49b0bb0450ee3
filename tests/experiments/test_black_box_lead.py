"""What a black box knows besides: on which jobs, and by how many features at once."""

import numpy as np
import pytest

from experiments.model_quality.black_box_lead import JobGroup, TaughtTable, black_box_lead

TAUGHT, TESTED = 3_000, 1_000


def table(of_one: float, of_two: float, of_three: float) -> TaughtTable:
    """Log run times of one feature, of the product of two, and of three that must all be positive."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, (TAUGHT + TESTED, 3))
    logarithm = (
        7.0
        + of_one * np.sin(6.0 * rows[:, 0])
        + of_two * rows[:, 0] * rows[:, 1]
        + of_three * np.sign(rows[:, 0] * rows[:, 1] * rows[:, 2])
    )
    names = ("user:mean", "user:last", "log_gpus")
    return TaughtTable(rows[:TAUGHT], logarithm[:TAUGHT], rows[TAUGHT:], logarithm[TAUGHT:], names)


def lead_of(made: TaughtTable, groups: list[JobGroup] | None = None) -> list[str]:
    """What is said of a model that knows nothing but the median, beside errors half as large."""
    ours = np.abs(made.test_logarithm - np.median(made.logarithm)) / np.log(10.0)
    return black_box_lead(ours, 0.5 * ours, groups or [], made)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (table(1.0, 0.0, 0.0), "shapes of single features"),
        (table(0.0, 4.0, 0.0), "pairs of features"),
        (table(0.0, 0.0, 2.0), "three and more features at once"),
    ],
)
def test_trees_of_three_depths_say_what_the_lead_is_made_of(made: TaughtTable, words: str) -> None:
    first, of_depth, by_feature = lead_of(made)
    assert first.endswith(": 50.0% less.")
    assert of_depth.startswith(f"It is mostly of {words}: trees are off by ")
    assert by_feature.startswith("Its gain comes by ")


def test_the_feature_that_tells_is_named_first() -> None:
    assert lead_of(table(1.0, 0.0, 0.0))[-1].startswith("Its gain comes by usual run time of user (")


def test_jobs_that_hold_more_of_the_lead_than_of_the_log_are_named() -> None:
    made = table(1.0, 0.0, 0.0)
    is_new = np.arange(TESTED) < TESTED / 10
    ours = np.where(is_new, 1.0, 0.2)
    theirs = np.where(is_new, 0.2, 0.2)
    groups = [JobGroup("user", "of new users", is_new), JobGroup("user", "of known users", ~is_new)]
    sentences = black_box_lead(ours, theirs, groups, made)
    assert sentences[1] == "Of the lead 100% on jobs of new users (10% of all)."
    alone = [JobGroup("virtual_cluster", "in the virtual cluster a", np.ones(TESTED, dtype=np.bool_))]
    assert not any("virtual cluster" in one for one in black_box_lead(ours, theirs, alone, made))


def test_a_lead_of_two_percent_or_none_is_one_sentence() -> None:
    made, ours = table(1.0, 0.0, 0.0), np.ones(TESTED)
    for theirs in (0.985 * ours, 1.2 * ours):
        (sentence,) = black_box_lead(ours, theirs, [], made)
        assert sentence == "LightGBM on the same features is not ahead by more than 2%."
