"""Runs a program and says what it took: processor time of it and its children, and its peak of memory."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

WATCHED = Path(__file__).with_name("watched.py")


class CannotBeMeasuredError(Exception):
    """A program that is to be measured fails: what it said last."""


@dataclass(frozen=True)
class Run:
    """One run of a program: user and system time (s), peak resident memory (MiB), standard output."""

    cpu_s: float
    peak_mib: float
    out: str


def run(
    command: Sequence[str | Path], *, folder: Path, environment: Mapping[str, str], limit_s: float = 900.0
) -> Run:
    """Run a program to its end in a folder; raises CannotBeMeasuredError unless it exits with 0 in time."""
    with tempfile.TemporaryDirectory() as scratch:
        used = Path(scratch) / "used"
        started = subprocess.Popen(
            [sys.executable, "-I", "-S", WATCHED, used, *command],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            out, error = started.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, SIGKILL)
            started.communicate()
            raise CannotBeMeasuredError(f"not done after {limit_s:g} s") from None
        if started.returncode:
            last = " ".join(error.strip().splitlines()[-1:])
            raise CannotBeMeasuredError(f"exit code {started.returncode}: {last}")
        cpu_s, peak_kib = map(float, used.read_text().split())
        return Run(cpu_s, peak_kib / 1024, out)
