"""Which combinations of facts tell run times is found from the log, whatever its columns are called."""

import numpy as np
import pandas as pd
import pytest

from lucid_models.duration.features import DurationFeatureSettings
from lucid_models.duration.job_columns import MODEL_FACTS
from lucid_models.duration.level_search import LevelChoice, LevelSearchSettings, choose_levels
from lucid_models.duration.tables import by_submission, usable_parts

SEARCH = LevelSearchSettings(trial_jobs=3_000)


def grid(jobs: int = 3_000, seed: int = 0, noise: float = 0.3) -> pd.DataFrame:
    """A grid's jobs: a user's requested time at a site sets the run time, nothing else does."""
    rng = np.random.default_rng(seed)
    user, site = rng.integers(0, 6, jobs), rng.integers(0, 5, jobs)
    limit = rng.integers(0, 4, jobs)
    typical = rng.normal(6.0, 1.8, (6, 5, 4))[user, site, limit]
    submit = pd.Timestamp("2021-01-04", tz="UTC") + pd.to_timedelta(
        np.sort(rng.uniform(0, 8 * 86_400, jobs)).round(), unit="s"
    )
    return pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(jobs)],
            "virtual_cluster": [f"site{number}" for number in site],
            "user": [f"u{number}" for number in user],
            "group": [f"g{number % 2}" for number in user],
            "gpus": 1,
            "time_limit_s": 3_600.0 * (1 + limit),
            "submit_time": submit,
            "duration_s": np.exp(typical + rng.normal(0, noise, jobs)) + 1.0,
        }
    )


def found(jobs: pd.DataFrame, known_until_s: float = np.inf) -> LevelChoice:
    return choose_levels(by_submission(jobs), DurationFeatureSettings(), SEARCH, known_until_s)


def chosen(jobs: pd.DataFrame) -> list[str]:
    return [level["level"] for level in found(jobs).record["chosen"]]


def test_a_combination_that_nobody_listed_is_found_with_what_it_brings() -> None:
    choice = found(grid())
    gains = {level["level"]: level["gain"] for level in choice.record["chosen"]}
    assert "virtual_cluster_user_time_limit" in gains
    assert choice.record["error"] < 0.5 * choice.record["error_of_all_jobs"]
    total = choice.record["error_of_all_jobs"] - sum(gains.values())
    assert choice.record["error"] == pytest.approx(total, abs=1e-5)
    names = [level.name for level in choice.levels]
    # What a new user or site falls back on.
    assert {"user", "virtual_cluster", "time_limit"} <= set(names)
    for level in choice.levels[1:]:
        assert names.index(level.parent) < names.index(level.name)


def test_the_order_of_columns_and_of_rows_changes_nothing() -> None:
    jobs = grid(1_500)
    shuffled = jobs[list(np.random.default_rng(3).permutation(jobs.columns))].sample(frac=1.0, random_state=2)
    assert found(shuffled) == found(jobs)


def test_a_fact_counts_by_what_it_tells_not_by_its_name() -> None:
    """The same values as account, QOS and queue are found as they are as user, site and group."""
    jobs = grid()
    other = jobs.rename(columns={"user": "account", "virtual_cluster": "qos", "group": "queue"})
    assert len(chosen(other)) == len(chosen(jobs))
    assert "account_qos_time_limit" in chosen(other)
    assert found(other).record["error"] == pytest.approx(found(jobs).record["error"], rel=0.05)


def test_what_says_nothing_is_left_out() -> None:
    jobs = grid(noise=0.1)
    rng = np.random.default_rng(7)
    useless = jobs.assign(account=[f"a{number}" for number in rng.integers(0, 40, len(jobs))], qos="normal")
    assert "qos" not in usable_parts(useless)
    first = chosen(useless)[: len(chosen(jobs))]
    assert not any("account" in level or "group" in level for level in first[:3])
    # A column with another value a job tells nothing of the next job.
    assert not any("account" in level for level in chosen(jobs.assign(account=jobs["job_id"])))


@pytest.mark.parametrize(
    "columns",
    [["user"], ["virtual_cluster"], ["user", "group"], ["user", "group", "time_limit_s", "virtual_cluster"]],
    ids=lambda columns: " ".join(columns),
)
def test_logs_without_some_facts_have_levels_of_the_others(columns: list[str]) -> None:
    jobs = grid(1_500)
    for bare in (jobs.drop(columns=columns), jobs.assign(**dict.fromkeys(columns))):
        parts = usable_parts(bare)
        choice = found(bare)
        assert choice.levels[0].name == "all"
        assert {part for level in choice.levels for part in level.parts} <= set(parts)
        assert not {column.removesuffix("_s") for column in columns} & set(parts)


def test_a_log_of_one_user_has_no_level_of_users() -> None:
    one = grid(1_500).assign(user="ann", group="g")
    assert "user" not in usable_parts(one)
    assert "virtual_cluster_time_limit" in chosen(one)


def test_a_short_log_gets_each_part_by_itself() -> None:
    choice = found(grid(120))
    assert "too few" in choice.record["why"]
    assert {level.name for level in choice.levels[1:]} == set(usable_parts(grid(120)))


def test_a_later_end_is_not_known_to_the_search() -> None:
    jobs = grid(1_500)
    until_s = jobs["submit_time"].iloc[-1].timestamp()
    late = jobs.index >= 1_480
    ran_a_day = jobs.assign(duration_s=jobs["duration_s"].mask(late, 1e5))
    ran_a_month = jobs.assign(duration_s=jobs["duration_s"].mask(late, 3e6))
    assert found(ran_a_month, until_s) == found(ran_a_day, until_s)
    assert found(ran_a_month) != found(ran_a_day)


def test_jobs_that_never_ended_teach_nothing() -> None:
    jobs = grid(1_500)
    never = jobs.assign(duration_s=jobs["duration_s"].where(jobs.index % 3 > 0))
    choice = found(never)
    assert choice.record["jobs"] == int(never["duration_s"].notna().sum())
    assert choice.record["chosen"]


def test_the_model_reads_every_text_that_a_job_is_submitted_with() -> None:
    names = {fact.name for fact in MODEL_FACTS}
    assert {"user", "account", "group", "queue", "qos", "virtual_cluster", "name", "job_type"} <= names
