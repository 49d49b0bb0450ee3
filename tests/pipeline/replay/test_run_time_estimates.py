"""`lucid simulate --estimates`: the order of a queue follows the estimates that are asked for."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from foundation.errors import BadInputError, UnknownNameError
from pipeline.replay.run_time_estimates import EstimateSource
from tests.reference import ROOT

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
            *(
                "--start",
                "2020-09-01 02:00",
                "--cold",
                "--policy",
                "qssf",
                "--out",
                "out",
                "--no-plot",
                *more,
            ),
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


# One node of 8 GPUs. Behind `runs` (until 100 s) the head needs all of it; which may go before it is for
# backfilling to say. SWF columns: 1 job, 2 submit, 4 run, 5 processors, 8 asked, 9 limit, 11 status, 12 user.
SWF = """; UnixStartTime: 0
1 0 0 100 6 -1 -1 6 120 -1 1 1 -1 -1 -1 1 -1 -1
2 1 0 50 8 -1 -1 8 60 -1 1 1 -1 -1 -1 1 -1 -1
3 2 0 90 2 -1 -1 2 90 -1 1 1 -1 -1 -1 1 -1 -1
4 3 0 20 2 -1 -1 2 500 -1 1 1 -1 -1 -1 1 -1 -1
5 4 0 20 2 -1 -1 2 -1 -1 1 1 -1 -1 -1 1 -1 -1
"""


@pytest.fixture
def limited(lucid, tmp_path):
    (tmp_path / "log.swf").write_text(SWF)

    def run(*more: str, policy: str = "easy"):
        done = lucid(
            *("simulate", "--jobs", "log.swf", "--format", "swf", "--gpus", "8", "--policy", policy),
            *("--out", "out", "--no-plot", "--json", *more),
        )
        assert done.code == 0, done.err
        jobs = pd.read_csv(tmp_path / "out" / f"jobs_{policy}.csv", dtype={"job_id": str})
        return done, dict(zip(jobs["job_id"], jobs["first_start_time_s"], strict=True))

    return run


def test_backfilling_goes_by_time_limits(limited):
    done, starts = limited()
    assert done.json[0]["estimates"] == "limit"
    # Job 3 is to end by 92 s; job 4 asked for 500 s, and job 5, which asked for nothing, may take as long.
    assert starts == {"1": 0, "2": 100, "3": 2, "4": 150, "5": 150}
    assert "Jobs without a time limit: 1 of 5" in done.err
    done, starts = limited("--estimates", "truth")
    assert done.json[0]["estimates"] == "truth"
    assert starts == {"1": 0, "2": 100, "3": 2, "4": 150, "5": 150}


def test_the_order_of_a_queue_is_the_logs_estimate_within_the_limit(limited):
    done, _ = limited(policy="qssf")
    assert done.json[0]["estimates"] == "user-history"
    _, by_limit = limited("--estimates", "limit", policy="qssf")
    assert by_limit["4"] > by_limit["3"]


def test_no_policy_can_know_limits_that_there_are_not(started):
    assert "The log has no time limits" in started("--estimates", "limit")


def test_a_model_needs_jobs_to_learn_from(started):
    problem = " ".join(started("--estimates", "model").split())
    assert "No duration model can be fitted on what the log has before 2020-09-01 02:46:40" in problem
    assert "--start later" in problem


def test_no_estimate_exceeds_the_limit():
    from simulator.workload.job import Job
    from simulator.workload.workload import Workload

    jobs = (
        Job("a", "vc", "u", 1, 0.0, 50.0, time_limit_s=60.0),
        Job("b", "vc", "u", 1, 1.0, 50.0),
        Job("c", "vc", "u", 1, 2.0, 60.0, cancel_time_s=9.0, time_limit_s=60.0, withdrawn=True),
    )
    known = Workload(jobs, {}).with_estimates(np.array([100.0, 100.0, 20.0])).jobs
    assert [job.estimated_duration_s for job in known] == [60.0, 100.0, 20.0]
    assert [job.duration_s for job in known] == [50.0, 50.0, 20.0], "what is believed of a job that never ran"


def test_an_elastic_job_that_was_withdrawn_lasts_as_it_is_believed_to():
    from simulator.workload.job import Job
    from simulator.workload.speed_up import Elasticity, SpeedUp
    from simulator.workload.workload import Workload

    elastic = Elasticity(service_s=240.0, speed_up=SpeedUp.linear(4), min_gpus=1)
    gone = Job("a", "vc", "u", 4, 0.0, 60.0, cancel_time_s=9.0, withdrawn=True, elasticity=elastic)
    known = Workload((gone,), {}).with_estimates(np.array([20.0])).jobs[0]
    assert (known.duration_s, known.elasticity.service_s) == (20.0, 80.0)


def test_a_model_learns_from_before_the_warm_up_though_an_older_job_still_runs(lucid, tmp_path):
    """The oldest job of those that fill the cluster may be the first of the log: nothing ended before it."""
    day = datetime(2026, 7, 1, tzinfo=UTC)
    rows = [("old", day, day, day + timedelta(days=20))]
    for i in range(240):
        begin = day + timedelta(hours=1 + i)
        rows.append((str(i), begin, begin, begin + timedelta(seconds=300 + i)))
    log = tmp_path / "log.csv"
    lines = [f"{name},{submit},{start},{end},1,vc,ann" for name, submit, start, end in rows]
    log.write_text(
        "job_id,submit_time,start_time,end_time,gpus,virtual_cluster,user\n" + "\n".join(lines) + "\n"
    )
    command = ("simulate", "--jobs", log, "--format", "jobs-csv", "--gpus", 8, "--policy", "easy")
    days = ("--start", "2026-07-10", "--estimates", "model")
    done = lucid(*command, *days, "--out", tmp_path / "out", "--no-plot", "--json")
    assert done.json[0]["estimates"] == "model"
    assert done.json[0]["warm_up_jobs"] > 1


@pytest.mark.reference
@pytest.mark.parametrize(("policy", "file"), [("easy", "atlas_easy_by_limits"), ("fifo", "atlas_fifo")])
def test_starts_on_atlas_are_those_of_an_independent_simulator(lucid, tmp_path, policy, file):
    log = ROOT / "data" / "swf" / "LLNL-Atlas-2006-cln.swf.gz"
    done = lucid(
        *("simulate", "--jobs", log, "--format", "swf", "--gpus", "9216", "--gpus-per-node", "9216"),
        *("--policy", policy, "--out", "out", "--no-plot", "--json"),
    )
    assert done.code == 0, done.err
    ours = pd.read_csv(tmp_path / "out" / f"jobs_{policy}.csv", dtype={"job_id": str})
    theirs = pd.read_csv(ROOT / "reference" / "easy" / f"{file}.csv.gz", dtype={"job_id": str})
    both = theirs.merge(ours, on="job_id", suffixes=("_theirs", "_ours"), validate="one_to_one")
    assert len(both) == len(theirs) == len(ours) == 39_207
    assert (both["queuing_delay_s_theirs"] == both["queuing_delay_s_ours"]).all()
