"""Runs the modes of a stream side by side, each in a process of its own; goes on where it stopped."""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live.measures import Times
from benchmarks.live.one_run import RunRequest, write_request
from benchmarks.live.submission import Say

_END_LIMIT_S = 60.0
_TOLD_CHARACTERS = 4_000


class RunError(RuntimeError):
    """A run failed; holds what it said last."""


@dataclass(frozen=True)
class Run:
    """What was measured of one (seed, mode)."""

    times: Times
    states: tuple[str, ...]
    late_s: tuple[float, ...]
    commit: str  # short; `+` behind it: files differed from it


def run_side_by_side(requests: Sequence[RunRequest], say: Say) -> None:
    """Run all requests without an outcome at once. Raises RunError when one fails; all have ended then."""
    missing = [request for request in requests if not Path(request.out).exists()]
    with contextlib.ExitStack() as stack:
        started = [(request, stack.enter_context(_process(request, say))) for request in missing]
        for request, process in started:
            if process.wait() != 0:
                errors = Path(request.out).with_suffix(".err")
                said = errors.read_text(errors="replace").strip()
                raise RunError(f"{Path(request.out).stem} failed; {errors} ends:\n{said[-_TOLD_CHARACTERS:]}")


def read_run(out: Path) -> Run:
    """Read what a run left."""
    document: dict[str, Any] = json.loads(out.read_text())
    rows = document["outcomes"]
    columns = (np.array([row[name] for row in rows]) for name in ("submit_s", "start_s", "end_s"))
    code = document["commit"]
    commit = f"{str(code['git_commit'] or 'unknown')[:7]}{'+' if code['changed_files'] else ''}"
    states = tuple(row["state"] for row in rows)
    return Run(Times(*columns), states, tuple(document["late_s"]), commit)


def first_estimates(out: Path, jobs: int) -> np.ndarray:
    """Return what the daemon believed of each job when it first ranked it (s), shape (jobs,).

    A job that started before it was ever ranked gets the median of the others.
    """
    found = np.full(jobs, np.nan)
    for line in out.with_suffix(".decisions.jsonl").read_text().splitlines():
        for job_id, *rest in json.loads(line)["new"]:
            estimate_s = rest[3]
            if np.isnan(found[int(job_id) - 1]) and estimate_s is not None:
                found[int(job_id) - 1] = estimate_s
    return np.where(np.isnan(found), np.nanmedian(found), found)


@contextlib.contextmanager
def _process(request: RunRequest, say: Say) -> Iterator["subprocess.Popen[str]"]:
    out = Path(request.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    asked = out.with_suffix(".request.json")
    write_request(request, asked)
    with out.with_suffix(".err").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.live.one_run", str(asked)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        name = f"{out.parent.name} {request.mode}"
        reader = threading.Thread(target=_tell, args=(process, name, say), daemon=True)
        reader.start()
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(timeout=_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            reader.join(timeout=5)


def _tell(process: "subprocess.Popen[str]", name: str, say: Say) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        say(f"{name}: {line.rstrip()}")
