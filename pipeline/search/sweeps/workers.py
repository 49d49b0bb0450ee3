"""Executes a sweep's runs on this machine; a worker process that is killed costs its run only."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from foundation.progress import Progress
from foundation.worker_processes import WorkerLostError, WorkerPool
from pipeline.search.experiment_store.documents import write_json
from pipeline.search.experiment_store.experiment import OK, Record
from pipeline.search.sweeps.sweep import SweepPlan, lost_record, pending, run_and_store

ENOUGH_FOR_ETA = 0.5  # runs; before that it is the workers' start that took the time


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is. `done` counts runs of earlier sessions (`reused`) too, the other figures do not."""

    total: int
    reused: int
    done: int
    failed: int = 0
    jobs: int = 0  # simulated jobs, those of runs under way included
    under_way: float = 0.0  # runs, by their share of jobs that is done
    elapsed_s: float = 0.0

    @property
    def jobs_per_s(self) -> float:
        """Simulated jobs per second of wall time, over all workers."""
        return self.jobs / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds until the sweep ends if runs keep taking what they took; None at the beginning."""
        here = self.done - self.reused + self.under_way
        left = self.total - self.done - self.under_way
        return self.elapsed_s / here * left if here >= ENOUGH_FOR_ETA else None


Watch = Callable[[SweepProgress], None]


def _nobody(progress: SweepProgress) -> None:
    """Watch nothing."""


class _Tally:
    """Counts what is done and what is under way, and tells the watch."""

    def __init__(self, total: int, reused: int, watch: Watch) -> None:
        self._began = time.monotonic()
        self._watch = watch
        self._partial: dict[str, tuple[int, int]] = {}  # of runs under way: jobs done, all jobs
        self._jobs = 0
        self.state = SweepProgress(total=total, reused=reused, done=reused)
        watch(self.state)

    def note(self, record: Record) -> None:
        """Take note of a run that is over."""
        good = record["status"] == OK
        self._partial.pop(record["run_id"], None)
        self._jobs += record["figures"]["jobs"] if good else 0
        self._tell(done=self.state.done + 1, failed=self.state.failed + (not good))

    def note_part(self, identity: str, done: int, total: int | None) -> None:
        """Take note of how far a run is, in jobs."""
        if total:
            self._partial[identity] = (done, total)
            self._tell()

    def _tell(self, **changed: int) -> None:
        parts = self._partial.values()
        self.state = replace(
            self.state,
            jobs=self._jobs + sum(done for done, _ in parts),
            under_way=sum(done / total for done, total in parts),
            elapsed_s=time.monotonic() - self._began,
            **changed,
        )
        self._watch(self.state)


def run_pending(
    plan: SweepPlan, *, workers: int = 1, fresh: bool = False, watch: Watch = _nobody
) -> SweepProgress:
    """Execute every run of the plan that has no good record (`fresh`: every run); `watch` is told.

    With one worker the runs are executed here, one after another; with more, in that many processes.
    """
    runs = dict(plan.runs) if fresh else pending(plan)
    tally = _Tally(len(plan.runs), len(plan.runs) - len(runs), watch)

    def lost(identity: str, error: WorkerLostError) -> Record:
        record = lost_record(identity, runs[identity], str(error))
        write_json(plan.record_uri(identity), record)
        return record

    with WorkerPool(partial(_run, replace(plan, runs=runs)), min(workers, len(runs))) as pool:
        for _, record in pool.results(runs, part=tally.note_part, lost=lost):
            tally.note(record)
    return tally.state


def _run(plan: SweepPlan, identity: str, progress: Progress) -> Record:
    return run_and_store(plan, plan.runs[identity], progress)
