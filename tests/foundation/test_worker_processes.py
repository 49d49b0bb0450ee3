"""Pieces of work over processes: a process that dies costs its piece, errors come home, progress is told."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from foundation.errors import UnknownNameError
from foundation.progress import Progress, silent
from foundation.worker_processes import WorkerLostError, WorkerPool, over_processes
from pipeline.studies.study import Record, StoredStudy, run_stages


def square(item: int, progress: Progress) -> tuple[int, int]:
    if item < 0:
        raise UnknownNameError("number", str(item), ["1", "2"])
    if item == 99:
        os.kill(os.getpid(), signal.SIGKILL)
    return item * item, os.getpid()


def slow(item: int, progress: Progress) -> int:
    for second in range(1, 4):
        time.sleep(0.3)
        progress(second, 3, "naps")
    return item


def add(shared: int, item: int) -> int:
    return shared + item


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_work_is_raised_here(workers: int) -> None:
    pool: WorkerPool[int, tuple[int, int]] = WorkerPool(square, workers)
    with pool, pytest.raises(UnknownNameError, match="Unknown number '-1'") as caught:
        dict(pool.results([-1]))
    assert caught.value.remedy == "Choose one of: 1, 2."


@pytest.mark.slow
def test_a_process_that_dies_costs_its_piece_only() -> None:
    with WorkerPool(square, 2) as pool:
        outcomes = dict(
            pool.results([1, 99, 2, 3], lost=lambda item, error: (-1, str(error).find("signal 9")))
        )
        assert [outcomes[item][0] for item in (1, 99, 2, 3)] == [1, -1, 4, 9]
        assert outcomes[99][1] > 0
        again = dict(pool.results([4, 5]))
        assert [again[item][0] for item in (4, 5)] == [16, 25]
        # Processes live from one list of items to the next.
        assert {pid for _, pid in again.values()} & {outcomes[item][1] for item in (1, 2, 3)}
        with pytest.raises(WorkerLostError, match="signal 9"):
            dict(pool.results([99]))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_it_is_told_how_far_a_piece_is(workers: int) -> None:
    told: list[tuple[int, int, int | None]] = []
    with WorkerPool(slow, workers) as pool:
        assert dict(pool.results([7], part=lambda *part: told.append(part))) == {7: 7}
    assert told
    assert all(item == 7 and 1 <= done <= total == 3 for item, done, total in told)


@pytest.mark.slow
def test_the_outcome_does_not_depend_on_the_number_of_workers() -> None:
    told: list[int] = []
    for workers in (1, 3):
        outcome = over_processes(
            add, 10, [3, 1, 2], workers=workers, what="sums", progress=lambda done, *_: told.append(done)
        )
        assert list(outcome.items()) == [(3, 13), (1, 11), (2, 12)]
    assert told == [0, 1, 2, 3] * 2
    assert over_processes(partial(add), 1, [], workers=2, what="nothing") == {}


class Killed(StoredStudy[int]):
    """A study whose evaluations end the process that they are in."""

    kind, unit, records, how_to_begin = "study", "trial", "trials", ""

    @classmethod
    def read_fields(cls, uri: str, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def item(self, identity: str) -> int:
        return 1

    def label(self, item: int) -> str:
        return "one"

    def run(self, identity: str, item: int, progress: Progress = silent) -> Record:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}


def test_an_experiment_whose_worker_died_says_what_to_do() -> None:
    stages = [("round 1", lambda: ["a trial"])]
    with pytest.raises(WorkerLostError, match=r"signal 9 .* Run it again: what is finished is kept"):
        run_stages(Killed("memory://killed"), stages, workers=2)


REFUSES_TO_BE_IMPORTED = """
from operator import contains
from foundation.worker_processes import over_processes

if __name__ != "__main__":
    raise SystemExit("imported again")
print(over_processes(contains, b"x" * 1_000_000, [120, 121], workers=2, what="letters"))
"""


@pytest.mark.slow
def test_work_is_handed_over_whatever_the_main_module_of_this_process_is(tmp_path: Path) -> None:
    """A task of Airflow is a fork of the scheduler, whose main module cannot be imported below a task."""
    script = tmp_path / "scheduler.py"
    script.write_text(REFUSES_TO_BE_IMPORTED)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout.strip(), done.stderr) == ("{120: True, 121: False}", "")


def contains(shared: bytes, item: int) -> bool:
    return item in shared


@pytest.mark.timeout(300)
def test_a_process_that_dies_before_it_has_its_work_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(WorkerLostError, match="exit code 1; what it wrote to standard error says why"):
        over_processes(contains, b"x" * 1_000_000, [120, 121], workers=2, what="letters")
    assert "ModuleNotFoundError" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_process_that_died_idle_costs_the_piece_that_it_is_given() -> None:
    with WorkerPool(square, 2) as pool:
        ((_, (_, pid)),) = pool.results([3])
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerLostError, match="signal 9"):
            dict(pool.results([4]))
        assert next(iter(pool.results([5])))[1][0] == 25
