"""Which combinations of facts tell run times is found from the log, whatever its columns are called."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cluster_logs.ingest import ingest_log, read_jobs_file
from cluster_logs.lake import Lake
from lucid_models.boosting import BoostingSettings
from lucid_models.duration.features import DurationFeatureSettings
from lucid_models.duration.job_columns import MODEL_FACTS
from lucid_models.duration.level_search import LevelChoice, LevelSearchSettings, choose_levels
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from lucid_models.duration.scorer import DurationScorer
from lucid_models.duration.tables import by_submission, job_mappings, usable_parts

SEARCH = LevelSearchSettings(trial_jobs=3_000)
FAST = BoostingSettings(bags=2, max_rounds=40, max_bins=32)


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


def test_a_level_joins_up_to_four_facts() -> None:
    rng = np.random.default_rng(1)
    jobs = grid(noise=0.1)
    queue = rng.integers(0, 3, len(jobs))
    # Of three users alone, so that a key of four facts comes often enough to be known.
    user = jobs["user"].str[1:].astype(int).to_numpy() % 3
    site, limit = (pd.factorize(jobs[name])[0] % 2 for name in ("virtual_cluster", "time_limit_s"))
    typical = rng.normal(6.0, 1.8, (3, 2, 2, 3))[user, site, limit, queue]
    jobs = jobs.assign(
        user=[f"u{number}" for number in user],
        group="g",
        virtual_cluster=[f"site{number}" for number in site],
        time_limit_s=3_600.0 * (1 + limit),
        qos=[f"q{number}" for number in queue],
        duration_s=np.exp(typical) + 1.0,
    )
    assert "virtual_cluster_user_qos_time_limit" in chosen(jobs)


def test_a_dense_log_is_looked_at_over_days() -> None:
    jobs = grid()  # 375 a day
    looked_at = {
        days: choose_levels(
            by_submission(jobs),
            DurationFeatureSettings(),
            LevelSearchSettings(trial_jobs=400, trial_days=days, most_trial_jobs=1_200),
        ).record["jobs"]
        for days in (1.0, 2.0, 7.0)
    }
    assert looked_at[1.0] == 400
    assert 650 < looked_at[2.0] < 850
    assert looked_at[7.0] == 1_200


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
    [["user"], ["user", "group", "time_limit_s", "virtual_cluster"]],
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


def requests(jobs: int = 900, seed: int = 3) -> pd.DataFrame:
    """What jobs ask for: the kind of GPU and the memory together set the run time."""
    rng = np.random.default_rng(seed)
    columns = {"user": 5, "kind": 3, "memory": 4}
    asked = pd.DataFrame({name: rng.integers(0, most, jobs) for name, most in columns.items()})
    typical = rng.permutation(np.linspace(4.0, 9.0, 12)).reshape(3, 4)[asked["kind"], asked["memory"]]
    asked["run_s"] = np.exp(typical + rng.normal(0, 0.2, jobs)).round().astype(int)
    asked["submit_s"] = np.sort(rng.integers(0, 60 * 86_400, jobs))
    return asked


def test_memory_and_gpu_type_of_a_slurm_log_are_found_and_named(tmp_path: Path) -> None:
    """From accounting to the words of an estimate by the model as it is saved."""
    first = pd.Timestamp("2026-01-01")
    lines = ["JobIDRaw|User|Partition|State|Submit|Start|End|AllocTRES|ReqTRES"]
    for job in requests().itertuples():
        submit, end = (first + pd.Timedelta(s, "s") for s in (job.submit_s, job.submit_s + job.run_s))
        kind, memory = ("v100", "a100", "h100")[job.kind], 4 ** (job.memory + 1)
        request = f"cpu=4,gres/gpu=2,gres/gpu:{kind}=2,mem={memory}G,node=1"
        times = "|".join(f"{time:%Y-%m-%dT%H:%M:%S}" for time in (submit, submit, end))
        lines.append(f"{job.Index}|u{job.user}|gpu|COMPLETED|{times}|gres/gpu=2|{request}")
    (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    lake = str(tmp_path / "lake")
    ingest_log(source_format="sacct", input_uri=str(tmp_path / "sacct.txt"), cluster="c", lake_uri=lake)
    jobs = Lake(lake).read_jobs("c")
    model = WorkloadEstimateModel(DurationSettings(log_boosting=FAST, mean_boosting=FAST)).fit(jobs)
    chosen_levels = [level["jobs_alike_in"] for level in model.explain_global()["levels"]]
    assert "GPU type x requested memory" in chosen_levels
    saved = DurationScorer.from_data(json.loads(json.dumps(model.to_data())))
    queue = job_mappings(jobs.iloc[-20:])
    said = saved.estimate(queue)
    assert said == model.scorer.estimate(queue)
    assert any("GPU type a100 x requested memory 16 GiB" in one.reason for one in said)
    unseen = saved.estimate([{**queue[0], "gpu_type": "mi300"}])[0].reason
    assert "GPU type mi300 is new" in unseen


def test_memory_of_a_standard_workload_is_found(tmp_path: Path) -> None:
    lines = []
    for job in requests().itertuples():
        memory_kb = 1_024 * 4**job.memory
        run = f"{job.Index} {job.submit_s} 0 {job.run_s} 4 -1 -1 4 -1 {memory_kb}"
        lines.append(f"{run} 1 {job.user} 1 {job.kind} 1 1 -1 -1")
    (tmp_path / "log.swf").write_text("\n".join(lines) + "\n")
    jobs, _ = read_jobs_file(str(tmp_path / "log.swf"), "swf")
    assert sorted(jobs["requested_memory_mib"].unique()) == [4.0, 16.0, 64.0, 256.0]
    assert chosen(jobs)[0] == "name_requested_memory"  # SWF's application is the name of a job
