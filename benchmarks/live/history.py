"""The cluster's own past: days of its users' jobs, run on a real Slurm and accounted for by sacct.

The past has idle hours, too long to wait for, and its jobs never compete here: there are more GPUs
than they ask for. So its busy stretches (`stream.Session`) are run one after another, and the idle time is
put back into the accounting: every time of a stretch is moved by one amount, to its own day and hour. Run
times, and everything that happened within a stretch, stay as Slurm measured them.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from benchmarks.live.site import HISTORY_GPUS_PER_NODE, Users, cluster
from benchmarks.live.stream import Session, VirtualCluster
from benchmarks.live.submission import (
    TIME_FORMAT,
    TIMES,
    Say,
    account,
    account_rows,
    outcomes,
    submit_stream,
    unix_s,
    wait_until_drained,
)
from tests.slurm.private_slurm import short_folder

# A second of a stretch is squeezed into this while jobs are submitted; Slurm must keep up on two cores.
SUBMITTED_PER_S = 7.0


def run_history(
    sessions: Sequence[Session],
    virtual_clusters: Sequence[VirtualCluster],
    users: Users,
    first_midnight: datetime,
    say: Say = lambda _: None,
) -> str:
    """Run all sessions on a Slurm of their own; return sacct's rows as if they had run when they should.

    `first_midnight` is the first day's. Raises StreamError.
    """
    jobs = [job for session in sessions for job in session.jobs]
    begins_s = [session.begin_s for session in sessions for _ in session.jobs]
    paced = [replace(job, offset_s=at / SUBMITTED_PER_S) for at, job in enumerate(jobs)]
    folder = short_folder()
    folder.chmod(0o755)
    try:
        with cluster(folder, virtual_clusters, gpus_per_node=HISTORY_GPUS_PER_NODE) as slurm:
            submitted = submit_stream(slurm, paced, users, say)
            wait_until_drained(slurm, say)
            ended = outcomes(slurm, submitted)
            text = account(slurm)
    finally:
        shutil.rmtree(folder)
    wanted = {
        outcome.job_id: first_midnight.timestamp() + begins_s[outcome.index] + jobs[outcome.index].offset_s
        for outcome in ended
    }
    return dated(text, wanted)


def dated(text: str, submitted_at_s: Mapping[str, float]) -> str:
    """Return sacct's rows with all times of a job moved so that it was submitted at its time (Unix s)."""
    header = text.partition("\n")[0]
    lines = [header]
    for row in account_rows(text):
        moved_s = int(submitted_at_s[row["JobIDRaw"]]) - unix_s(row["Submit"])
        times = {name: _text(unix_s(row[name]) + moved_s) for name in TIMES}
        lines.append("|".join({**row, **times}.values()))
    return "\n".join(lines) + "\n"


def _text(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime(TIME_FORMAT)
