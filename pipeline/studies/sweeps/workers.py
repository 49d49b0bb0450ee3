"""Executes a sweep's runs on this machine; a worker process that is killed costs its run only."""

import time
from dataclasses import dataclass, replace
from functools import partial

from foundation.progress import Progress, Work, silent
from foundation.worker_processes import WorkerLostError, WorkerPool
from pipeline.studies.experiment import OK, Record
from pipeline.studies.store import write_json
from pipeline.studies.sweeps.sweep import SweepPlan, lost_record, pending, run_and_store


@dataclass(frozen=True)
class ExecutedRuns:
    """How many runs of a sweep were executed, how many of them failed, and the jobs that they simulated."""

    runs: int
    failed: int
    jobs: int
    elapsed_s: float

    @property
    def jobs_per_s(self) -> float:
        """Simulated jobs per second of wall time, over all workers."""
        return self.jobs / self.elapsed_s if self.elapsed_s > 0 else 0.0


def run_pending(
    plan: SweepPlan, *, workers: int = 1, fresh: bool = False, progress: Progress = silent
) -> ExecutedRuns:
    """Execute every run of the plan that has no good record (`fresh`: every run).

    With one worker the runs are executed here, one after another; with more, in that many processes.
    `progress` counts simulated jobs, those of runs under way included; all runs replay about as many.
    """
    runs = dict(plan.runs) if fresh else pending(plan)
    began_s = time.monotonic()
    work = Work(f"{len(runs):,} runs", "jobs")
    jobs_by_run: dict[str, int] = {}
    most_jobs = failed = 0

    def note(identity: str, done_jobs: int, total_jobs: int | None) -> None:
        nonlocal most_jobs
        jobs_by_run[identity] = done_jobs
        most_jobs = max(most_jobs, total_jobs or 0)
        progress(sum(jobs_by_run.values()), most_jobs * len(runs) or None, work)

    def lost(identity: str, error: WorkerLostError) -> Record:
        record = lost_record(identity, runs[identity], str(error))
        write_json(plan.record_uri(identity), record)
        return record

    with WorkerPool(partial(_run, replace(plan, runs=runs)), min(workers, len(runs))) as pool:
        for identity, record in pool.results(runs, part=note, lost=lost):
            is_good = record["status"] == OK
            failed += not is_good
            jobs = record["figures"]["jobs"] if is_good else 0
            note(identity, jobs, jobs)
    jobs = sum(jobs_by_run.values())
    progress(jobs, jobs, work)
    return ExecutedRuns(len(runs), failed, jobs, time.monotonic() - began_s)


def _run(plan: SweepPlan, identity: str, progress: Progress) -> Record:
    return run_and_store(plan, plan.runs[identity], progress)
