"""Submits a stream to a Slurm at its offsets, waits until every job has ended, and says what became of each.

All figures are Slurm's own, from `sacct`: whole seconds, each time cut down, so that a difference of two of
them is right on average and off by less than a second.
"""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.live.site import Users
from benchmarks.live.stream import CANCELLED, FAILED, StreamJob
from cluster_logs.slurm_words import DEFAULT_FIELDS
from tests.slurm.private_slurm import PrivateSlurm

TIMES = ("Submit", "Start", "End")
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"
# Long after the last submission; a queue that stands still must not keep the benchmark for ever.
DRAIN_LIMIT_S = 1_200.0
_POLL_S = 0.5

Say = Callable[[str], None]


@dataclass(frozen=True)
class Submission:
    """A job as it was submitted: its place in the stream, Slurm's id, and how late it was."""

    index: int
    job_id: str
    late_s: float


@dataclass(frozen=True)
class Outcome:
    """What accounting says of one job; Unix seconds."""

    index: int
    job_id: str
    state: str
    submit_s: float
    start_s: float
    end_s: float


class StreamError(RuntimeError):
    """A job could not be submitted, or the queue stood still."""


def submit_stream(
    slurm: PrivateSlurm, jobs: Sequence[StreamJob], users: Users, say: Say = lambda _: None
) -> list[Submission]:
    """Submit each job at its offset, one after another, by one sbatch each. Raises StreamError."""
    environment = slurm.environment()
    begin = time.monotonic()
    submitted: list[Submission] = []
    for index, job in enumerate(jobs):
        time.sleep(max(0.0, begin + job.offset_s - time.monotonic()))
        late_s = time.monotonic() - begin - job.offset_s
        submitted.append(Submission(index, _submit(index, job, users, environment), late_s))
        if index % 25 == 24 or index == len(jobs) - 1:
            say(f"{index + 1} of {len(jobs)} jobs submitted")
    return submitted


def wait_until_drained(slurm: PrivateSlurm, say: Say = lambda _: None) -> None:
    """Wait until no job waits or runs. Raises StreamError when none has ended for too long."""
    left, since = -1, time.monotonic()
    while rows := slurm.run("squeue", "--noheader", "--format=%i %T").splitlines():
        if len(rows) != left:
            left, since = len(rows), time.monotonic()
            say(f"{left} jobs left")
        if time.monotonic() - since > DRAIN_LIMIT_S:
            raise StreamError(f"No job ended for {DRAIN_LIMIT_S:g} s; left: {', '.join(rows[:5])} ...")
        time.sleep(_POLL_S)


def account(slurm: PrivateSlurm) -> str:
    """Return sacct's rows of all jobs with a header line, as `lucid ingest --format sacct` reads them."""
    return subprocess.run(
        ["sacct", "-a", "-D", "-X", "-P", "--noconvert", "-S", "1970-01-02", "-o", ",".join(DEFAULT_FIELDS)],
        env=slurm.environment() | {"TZ": "UTC", "SLURM_TIME_FORMAT": TIME_FORMAT},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout


def outcomes(slurm: PrivateSlurm, submitted: Sequence[Submission]) -> list[Outcome]:
    """Return what became of every submitted job, once accounting has all their ends."""
    found: dict[str, Outcome] = {}
    index_of = {one.job_id: one.index for one in submitted}

    def complete() -> bool:
        found.clear()
        for row in account_rows(account(slurm)):
            job_id = row["JobIDRaw"]
            if job_id in index_of and all(row[name][:1].isdigit() for name in TIMES):
                found[job_id] = Outcome(
                    index=index_of[job_id],
                    job_id=job_id,
                    state=row["State"].partition(" ")[0],
                    submit_s=unix_s(row["Submit"]),
                    start_s=unix_s(row["Start"]),
                    end_s=unix_s(row["End"]),
                )
        return len(found) == len(index_of)

    slurm.wait_for(complete, "accounting has every job's end")
    return sorted(found.values(), key=lambda outcome: outcome.index)


def account_rows(text: str) -> list[Mapping[str, str]]:
    """Return the rows of `account` by their columns."""
    header, *lines = text.splitlines()
    names = header.split("|")
    return [dict(zip(names, line.split("|"), strict=True)) for line in lines]


def unix_s(text: str) -> float:
    """Return the Unix seconds of one of sacct's times, as `account` asks for them."""
    return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC).timestamp()


def _submit(index: int, job: StreamJob, users: Users, environment: Mapping[str, str]) -> str:
    limit = [] if job.time_limit_min is None else [f"--time={job.time_limit_min}"]
    result = subprocess.run(
        [
            "sbatch", "--parsable", f"--partition={job.virtual_cluster}", f"--job-name={users.job_name(job)}",
            f"--gres=gpu:{job.gpus}", f"--comment={index}", "--output=/dev/null", "--chdir=/", *limit,
            *users.options(job),
        ],
        input=script_of(job),
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )  # fmt: skip
    if result.returncode != 0:
        raise StreamError(f"Job {index} ({job}) was refused: {result.stderr.strip()}")
    return result.stdout.strip().partition(";")[0]


def script_of(job: StreamJob) -> str:
    """Return a job's script: it sleeps, and ends as the job is to end."""
    last = {FAILED: "exit 1", CANCELLED: "exec scancel $SLURM_JOB_ID"}.get(job.ends, "exit 0")
    return f"#!/bin/sh\nsleep {job.duration_s:g}\n{last}\n"
