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
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from pipeline.sweep import Record, SweepPlan, lost_record, pending, run_and_store, store_record
from simulator.sweep import OK, SweepRun


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is. `done` counts runs of earlier sessions (`reused`) too, the other figures do not."""

    total: int
    reused: int
    done: int
    failed: int = 0
    jobs: int = 0  # simulated jobs
    elapsed_s: float = 0.0

    @property
    def jobs_per_s(self) -> float:
        """Simulated jobs per second of wall time, over all workers."""
        return self.jobs / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds until the sweep ends if runs keep taking what they took so far; None before the first."""
        here = self.done - self.reused
        return self.elapsed_s / here * (self.total - self.done) if here else None


Watch = Callable[[SweepProgress], None]


def _nobody(progress: SweepProgress) -> None:
    """Watch nothing."""


def run_pending(
    plan: SweepPlan, *, workers: int = 1, fresh: bool = False, watch: Watch = _nobody
) -> SweepProgress:
    """Execute every run of the plan that has no good record (`fresh`: every run); `watch` is told after each.

    With one worker the runs are executed here, one after another; with more, in that many processes.
    """
    runs = dict(plan.runs) if fresh else pending(plan)
    reused = len(plan.runs) - len(runs)
    state = SweepProgress(total=len(plan.runs), reused=reused, done=reused)
    began = time.monotonic()
    watch(state)

    def note(record: Record) -> None:
        nonlocal state
        good = record["status"] == OK
        state = replace(
            state,
            done=state.done + 1,
            failed=state.failed + (not good),
            jobs=state.jobs + (record["figures"]["jobs"] if good else 0),
            elapsed_s=time.monotonic() - began,
        )
        watch(state)

    if workers <= 1 or len(runs) <= 1:
        for run in runs.values():
            note(run_and_store(plan.uri, plan.inputs_uri, run))
    else:
        _run_in_processes(plan, runs, min(workers, len(runs)), note)
    return state


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    identity: str = ""  # of the run that it holds

    def give(self, identity: str, run: SweepRun) -> None:
        """Send a run."""
        self.identity = identity
        self.pipe.send_bytes(json.dumps(run.to_dict()).encode())


def _run_in_processes(
    plan: SweepPlan, runs: Mapping[str, SweepRun], workers: int, note: Callable[[Record], None]
) -> None:
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
                    record: Record = json.loads(pipe.recv_bytes())
                except (EOFError, OSError):
                    worker.process.join()
                    record = lost_record(worker.identity, runs[worker.identity], _death(worker.process))
                    store_record(plan.uri, record)
                    note(record)
                    del crew[pipe]
                    if waiting:
                        hire()
                    continue
                note(record)
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
    process = context.Process(target=_work, args=(theirs, plan.uri, plan.inputs_uri), daemon=True)
    process.start()
    theirs.close()  # only the worker holds its end: when it dies, our end says so
    return _Worker(process, ours)


def _death(process: BaseProcess) -> str:
    code = process.exitcode
    how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
    return f"The worker process ended {how} during this run (9: often out of memory; try fewer --workers)."


def _work(pipe: Connection, plan_uri: str, inputs_uri: str) -> None:
    """What a worker process does until its pipe closes. Ctrl-C is for the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            values: dict[str, Any] = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        record = run_and_store(plan_uri, inputs_uri, SweepRun.from_dict(values))
        try:
            pipe.send_bytes(json.dumps(record).encode())
        except OSError:
            return  # nobody listens any more; the record is stored
