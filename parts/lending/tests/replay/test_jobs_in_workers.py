"""Tests of jobs in workers, made of a log: the four scenarios, shares of jobs, tuned jobs."""

from pathlib import Path

import pytest

from cluster_logs.ingest import read_jobs_file
from foundation.errors import BadInputError, UnknownNameError
from parts.lending.replay.jobs_in_workers import JobMix, in_workers
from simulator.workload.job import Job
from simulator.workload.workers import Workers
from simulator.workload.workload import Workload

LOG = Path(__file__).parents[4] / "tests" / "cluster_logs" / "data" / "lyra-csv.csv"
FRAME = read_jobs_file(str(LOG), "lyra-csv")[0]


def jobs_of(mix: JobMix | None = None) -> dict[str, Job]:
    return {job.job_id: job for job in in_workers(Workload.from_jobs(FRAME), FRAME, mix).jobs}


def workers_of(mix: JobMix) -> dict[str, Workers]:
    return {job_id: job.workers for job_id, job in jobs_of(mix).items() if job.workers is not None}


def test_a_job_is_as_the_log_says_and_none_is_heterogeneous_in_basic() -> None:
    jobs = jobs_of()
    assert jobs["0"].workers == Workers(1, 1, 1, loanable=True)
    assert jobs["1"].workers == Workers(2, 4, 8)
    assert (jobs["1"].gpus, jobs["1"].duration_s, jobs["1"].estimated_duration_s) == (16, 300.0, 300.0)
    assert jobs["3"].workers == Workers(1, 2, 3, loanable=True)
    assert [job.submit_time_s for job in jobs.values()] == [0.0, 115.0, 120.0, 120.0]


def test_scenarios_say_who_may_run_where() -> None:
    def names(mix: JobMix, what: str) -> list[str]:
        return [job_id for job_id, workers in workers_of(mix).items() if getattr(workers, what)]

    assert names(JobMix("advanced"), "loanable") == ["0", "3"]
    assert names(JobMix("advanced"), "heterogeneous") == ["1", "3"]
    assert names(JobMix("heterogeneous"), "loanable") == []
    assert names(JobMix("heterogeneous"), "heterogeneous") == ["1", "3"]
    ideal = JobMix("ideal")
    assert all(
        names(ideal, what) == ["0", "1", "2", "3"] for what in ("loanable", "heterogeneous", "elastic")
    )
    assert [workers.most for workers in workers_of(ideal).values()] == [2, 8, 2, 4]


def test_shares_go_by_the_draws() -> None:
    assert [workers.most for workers in workers_of(JobMix(elastic_share=0.3)).values()] == [1, 4, 2, 4]
    keep = workers_of(JobMix(checkpoint_share=0.5))
    assert [workers.checkpoints for workers in keep.values()] == [True, False, True, False]
    mixed = workers_of(JobMix("advanced", heterogeneous_share=0.1))
    assert [workers.heterogeneous for workers in mixed.values()] == [False, False, True, False]
    wrong = jobs_of(JobMix(estimate_error_share=0.2))
    assert wrong["1"].duration_s == 300.0
    assert wrong["1"].estimated_duration_s == pytest.approx(300.0 * 0.9)
    assert wrong["0"].estimated_duration_s == wrong["0"].duration_s


def test_scaling_costs_what_is_said_and_the_work_stays() -> None:
    job = jobs_of(JobMix(loss=0.2))["1"]
    assert job.workers is not None
    assert job.duration_s == pytest.approx(600 * 4 / (4 + 0.8 * 4))
    assert job.duration_s * job.workers.rate(8) / job.workers.rate(4) == pytest.approx(600)


def test_a_tuned_job_has_a_curve_of_its_own() -> None:
    workload = in_workers(
        Workload.from_jobs(FRAME), FRAME, tuned=lambda least, most: tuple(1.0 for _ in range(least, most + 1))
    )
    assert workload.jobs[0].workers is not None
    assert workload.jobs[0].workers.speed_ups is None
    assert workload.jobs[1].duration_s == 600.0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="scenario 'best'"):
        JobMix("best")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="elastic_share is"):
        JobMix(elastic_share=1.5)
    rigid = FRAME.assign(workers_max=None)
    with pytest.raises(BadInputError, match="which workers job '0' runs"):
        in_workers(Workload.from_jobs(rigid), rigid)
    undrawn = FRAME.drop(columns="elastic_draw")
    with pytest.raises(BadInputError, match="no elastic_draw"):
        in_workers(Workload.from_jobs(undrawn), undrawn, JobMix(elastic_share=0.2))
