"""Executes a sweep's runs on this machine: in this process, or in worker processes.

Each worker has one pipe to us and holds one run at a time, so a worker that is killed (out of memory, a crash
in a library) costs its run only, and we know which. A worker whose pipe closes ends: when we are killed, no
worker stays behind.
"""

import json
import multiprocessing as mp
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from pipeline.search.experiment_store.documents import write_json
from pipeline.search.experiment_store.experiment import OK, Record
from pipeline.search.sweeps.runs import SweepRun
from pipeline.search.sweeps.sweep import SweepPlan, lost_record, pending, run_and_store

ENOUGH_FOR_ETA = 0.5  # runs; before that it is the workers' start that took the time
SECONDS_BETWEEN_WORDS = 0.5  # from a worker about a run that is under way


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
    if workers <= 1 or len(runs) <= 1:
        for identity, run in runs.items():

            def part(done: int, total: int | None, what: str, identity: str = identity) -> None:
                tally.note_part(identity, done, total)

            tally.note(run_and_store(plan, run, part))
    else:
        _run_in_processes(plan, runs, min(workers, len(runs)), tally)
    return tally.state


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    identity: str = ""  # of the run that it holds

    def give(self, identity: str, run: SweepRun) -> None:
        """Send a run."""
        self.identity = identity
        self.pipe.send_bytes(json.dumps(run.to_dict()).encode())


def _run_in_processes(plan: SweepPlan, runs: Mapping[str, SweepRun], workers: int, tally: _Tally) -> None:
    waiting = list(runs)[::-1]
    crew: dict[Connection, _Worker] = {}

    def assign(worker: _Worker) -> None:
        if waiting:
            identity = waiting.pop()
            worker.give(identity, runs[identity])
        else:
            crew.pop(worker.pipe)
            worker.pipe.close()  # it ends
            worker.process.join()

    def hire() -> None:
        worker = _start(plan)
        crew[worker.pipe] = worker
        assign(worker)

    try:
        for _ in range(workers):
            hire()
        while crew:
            for pipe in wait(list(crew)):
                assert isinstance(pipe, Connection)  # noqa: S101 - we put no other kind in
                worker = crew[pipe]
                try:
                    message: Record = json.loads(pipe.recv_bytes())
                except (EOFError, OSError):
                    worker.process.join()
                    lost = lost_record(worker.identity, runs[worker.identity], _death(worker.process))
                    write_json(plan.record_uri(worker.identity), lost)
                    tally.note(lost)
                    del crew[pipe]
                    if waiting:
                        hire()
                    continue
                if "part" in message:
                    tally.note_part(worker.identity, *message["part"])
                    continue
                tally.note(message)
                assign(worker)
    finally:
        for worker in crew.values():
            worker.process.terminate()
            worker.process.join()
            worker.pipe.close()


def _start(plan: SweepPlan) -> _Worker:
    # A fresh interpreter: threads of libraries that are loaded here would not survive a fork.
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, replace(plan, runs={})), daemon=True)
    process.start()
    theirs.close()  # only the worker holds its end: when it dies, our end says so
    return _Worker(process, ours)


def _death(process: BaseProcess) -> str:
    code = process.exitcode
    how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
    return f"The worker process ended {how} during this run (9: often out of memory; try fewer --workers)."


def _work(pipe: Connection, plan: SweepPlan) -> None:
    """What a worker process does until its pipe closes. Ctrl-C is for the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    said_s = time.monotonic()

    def say(message: Record) -> None:
        nonlocal said_s
        said_s = time.monotonic()
        # Nobody may listen any more; the run goes on all the same, and its record is stored.
        with suppress(OSError):
            pipe.send_bytes(json.dumps(message).encode())

    def part(done: int, total: int | None, what: str) -> None:
        if time.monotonic() - said_s >= SECONDS_BETWEEN_WORDS:
            say({"part": [done, total]})

    while True:
        try:
            values: dict[str, Any] = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        say(run_and_store(plan, SweepRun.from_dict(values), part))
