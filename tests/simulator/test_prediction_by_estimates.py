"""Ends predicted by estimates: what is believed is played forward, not what will be."""

import numpy as np
import pandas as pd
import pytest

from foundation.errors import BadInputError
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

ONE_GPU = ClusterSpec({"vc": 1}, gpus_per_node=1)


def workload(*jobs: tuple[float, float, float | None]) -> Workload:
    """Jobs on one GPU: submission, run time and estimate (s)."""
    made = tuple(
        Job(f"j{i}", "vc", "u", 1, submit_s, duration_s, estimated_duration_s=estimate_s, order=i)
        for i, (submit_s, duration_s, estimate_s) in enumerate(jobs)
    )
    return Workload(made, {})


def predicted(found: Workload, policy: str = "fifo", by: str = "estimates") -> list[float]:
    result = simulate(Scenario(found, ONE_GPU), policy, predict=True, predict_by=by)  # type: ignore[arg-type]
    table: pd.DataFrame = result.jobs
    return table.sort_values("job_id")["predicted_end_time_s"].tolist()


def test_what_waits_and_runs_is_played_by_its_estimates() -> None:
    jobs = workload((0, 100, 50), (10, 100, 30), (20, 10, 10))
    assert predicted(jobs, by="truth") == [100, 200, 210]
    assert predicted(jobs) == [50, 80, 90]


def test_an_estimate_that_is_outlived_counts_twice() -> None:
    # At 70 s the first has run for 70 of 50 estimated: it is believed to take 100.
    assert predicted(workload((0, 300, 50), (70, 10, 10))) == [50, 110]
    assert predicted(workload((0, 300, 50), (250, 10, 10))) == [50, 410]


def test_right_estimates_predict_what_true_run_times_do() -> None:
    rng = np.random.default_rng(3)
    submit = np.sort(rng.integers(0, 5_000, 60)).astype(float)
    run = rng.integers(10, 400, 60).astype(float)
    jobs = workload(*((s, r, r) for s, r in zip(submit, run, strict=True)))
    for policy in ("fifo", "qssf"):
        assert predicted(jobs, policy) == predicted(jobs, policy, by="truth")


def test_only_the_jobs_that_are_asked_for_are_predicted() -> None:
    jobs = workload((0, 100, 50), (10, 100, 30), (20, 10, 10))
    for by, expected in (("estimates", 80.0), ("truth", 200.0)):
        result = simulate(Scenario(jobs, ONE_GPU), "fifo", predict={"j1"}, predict_by=by)  # type: ignore[arg-type]
        predicted_ends = result.jobs.set_index("job_id")["predicted_end_time_s"].dropna()
        assert predicted_ends.to_dict() == {"j1": expected}


def test_without_an_estimate_nothing_can_be_predicted_by_it() -> None:
    with pytest.raises(BadInputError, match="'j0' cannot be predicted"):
        predicted(workload((0, 100, None)))
    with pytest.raises(BadInputError, match="guessed"):
        predicted(workload((0, 100, 1)), by="guessed")
