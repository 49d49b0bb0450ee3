"""`lucid simulate --estimates`: the order of a queue follows the estimates that are asked for."""

import json

import pandas as pd
import pytest

from foundation.errors import BadInputError, UnknownNameError
from pipeline.replay.run_time_estimates import EstimateSource

START = pd.Timestamp("2020-09-01", tz="UTC")
COLUMNS = (
    "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
)


def helios_log() -> str:
    """Two past jobs a user, one long job that holds all GPUs, and two jobs that wait behind it."""
    rows = [
        # job, user, name, submission (s), run time (s)
        ("past1", "ann", "train_big", 0, 5_000),
        ("past2", "ann", "eval", 10, 50),
        ("past3", "bob", "gnn", 20, 900),
        ("past4", "ann", "eval", 5_100, 60),
        ("holds", "bob", "gnn", 10_000, 900),
        ("long", "ann", "train_big", 10_001, 5_000),
        ("short", "bob", "gnn", 10_002, 800),
    ]
    lines = [COLUMNS]
    for job, user, name, submit, run in rows:
        at = [(START + pd.Timedelta(seconds=s)).strftime("%Y-%m-%d %H:%M:%S") for s in (submit, submit + run)]
        lines.append(f"{job},{user},vc1,{name},8,16,1,COMPLETED,{at[0]},{at[0]},{at[1]},{run},0")
    return "\n".join(lines) + "\n"


@pytest.fixture
def started(lucid, tmp_path):
    (tmp_path / "log.csv").write_text(helios_log())

    def run(*more: str):
        done = lucid(
            *("simulate", "--jobs", "log.csv", "--format", "helios", "--gpus", "8", "--time-zone", "UTC"),
            *("--start", "2020-09-01 02:00", "--policy", "qssf", "--out", "out", "--no-plot", *more),
        )
        if done.code:
            return done.err
        jobs = pd.read_csv(tmp_path / "out" / "jobs_qssf.csv").set_index("job_id")["first_start_time_s"]
        return sorted(jobs.index, key=lambda job: jobs[job])

    return run


def test_the_queue_is_ordered_by_the_estimates_that_are_asked_for(started):
    # Ann's last two jobs were short evaluations: by her history the long job seems shorter than bob's.
    assert started() == ["holds", "long", "short"]
    assert started("--estimates", "user-history") == ["holds", "long", "short"]
    # Both of QSSF's rules know the job by its name, from before the window.
    assert started("--estimates", "qssf") == ["holds", "short", "long"]
    assert started("--estimates", "qssf-artifact") == ["holds", "short", "long"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--estimates", "helios"], "Unknown source of estimates 'helios'"),
        (["--estimate-setting", "rolling_weight=1"], "Estimates from 'log' have no settings"),
        (
            ["--estimates", "qssf", "--estimate-setting", "lambda=1"],
            "Unknown setting of QSSF's estimate 'lambda'",
        ),
        (
            ["--estimates", "qssf", "--estimate-setting", "rolling_weight"],
            "'rolling_weight' is not NAME=VALUE",
        ),
        (["--estimates", "qssf", "--estimate-setting", "seed=1.5"], "seed is 1.5. Give a whole number"),
        (["--estimates", "qssf", "--estimate-setting", "seed=true"], "seed is True. Give a whole number"),
        (["--estimates", "qssf", "--estimate-setting", "refit_days=0"], "refit_days is 0"),
        (["--estimates", "qssf", "--estimate-setting", "new_user=me"], "new_user is 'me'"),
    ],
)
def test_what_cannot_be_is_named(started, options, problem):
    assert problem in " ".join(started(*options).split())


def test_a_source_checks_itself():
    with pytest.raises(UnknownNameError):
        EstimateSource("oracle")
    with pytest.raises(BadInputError, match="have no settings"):
        EstimateSource("user-history", json.loads('{"seed": 1}'))
