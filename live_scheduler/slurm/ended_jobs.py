"""What became of jobs: from accounting where there is one, else from slurmctld while it remembers them.

sacct is asked for the last run of each job. A job whose last run was requeued, or waits, or runs, has not
ended and is left out, to be asked for again; so is one of which slurmdbd does not know (yet). Of a run that
was preempted, or whose node failed, accounting does not say whether the job goes on: for some seconds that
is its last run also where it was requeued. It is the end of a job that is in no queue.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from cluster_logs.job_states import JobState
from cluster_logs.slurm_mark import MarkKey
from cluster_logs.slurm_words import facts_of_tres, held_by_tres, home_partition, slurm_state
from foundation.errors import BadInputError
from live_scheduler.cluster_state import EndedJob, LiveJob
from live_scheduler.slurm.accounting import IDS_OF_A_CALL, days_between, sacct_command, sacct_records
from live_scheduler.slurm.commands import NO_ACCOUNTING, call
from live_scheduler.slurm.other_facts import fact_columns, other_facts
from live_scheduler.slurm.queue_reading import (
    A_YEAR_S,
    PLAIN_TIMES,
    count_tasks,
    read_ended,
    time_s,
)
from live_scheduler.slurm.slurm_memory import Origin

_FACT_COLUMNS = fact_columns("sacct")
_FIELDS = (
    "JobIDRaw",
    "JobID",
    "User",
    "Partition",
    "JobName",
    "Comment",
    "AdminComment",
    "State",
    "Submit",
    "Start",
    "End",
    "TimelimitRaw",
    "AllocTRES",
    "ReqTRES",
    "NCPUS",
    "NNodes",
    *_FACT_COLUMNS.values(),
)
_COMMAND = sacct_command(_FIELDS)
_ENDED = (JobState.COMPLETED, JobState.CANCELLED, JobState.FAILED)
# This run is over, the job is not: it waits for its next run.
_REQUEUED = "REQUEUED"
# After these a job ends (PreemptMode=CANCEL, --no-requeue) or waits for its next run.
_MAY_GO_ON = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL")


class NoAccountingError(BadInputError):
    """The cluster keeps no accounts."""


def accounted(
    job_ids: Sequence[str], since_s: float, marks: MarkKey, partitions: Container[str], limit_s: float
) -> list[EndedJob]:
    """Return those of the jobs that have ended, by accounting; `partitions` are those that exist now.

    The record of an array ends, at `since_s`, when all its tasks have started: they are jobs of their own.
    Raises NoAccountingError, or ServiceUnavailableError when slurmdbd does not answer.
    """
    rows = [
        row
        for at in range(0, len(job_ids), IDS_OF_A_CALL)
        for row in _ask([f"--jobs={','.join(job_ids[at : at + IDS_OF_A_CALL])}"], marks, partitions, limit_s)
    ]
    last_runs, asked = _last_runs(rows), set(job_ids)
    records = {row.job.job_id for row in rows}
    for row in rows:
        array_id, underscore, _ = row.job.job_id.partition("_")
        if underscore and array_id in asked and array_id not in records:
            last_runs[array_id] = dissolved(array_id, row.job, since_s)
    return [last_runs[job_id] for job_id in job_ids if job_id in last_runs]


def accounted_since(
    since_s: float, now_s: float, marks: MarkKey, partitions: Container[str], limit_s: float
) -> list[EndedJob]:
    """Return all jobs that ended at or after `since_s`, by accounting; raises as `accounted`."""
    ended: dict[str, EndedJob] = {}
    first, last = (datetime.fromtimestamp(at_s, UTC) for at_s in (since_s, max(now_s, since_s) + 1))
    for start, end in days_between(first, last):
        window = [f"--starttime={max(start, first):%Y-%m-%dT%H:%M:%S}", f"--endtime={end:%Y-%m-%dT%H:%M:%S}"]
        ended |= _last_runs(_ask(window, marks, partitions, limit_s))
    return sorted(
        (each for each in ended.values() if each.end_time_s >= since_s), key=lambda each: each.end_time_s
    )


def dissolved(array_id: str, task: LiveJob, at_s: float) -> EndedJob:
    """Return the end of an array's record all of whose tasks have started; `task` is one of them."""
    job = replace(task, job_id=array_id, start_time_s=None, gpus_on=())
    return EndedJob.of_run(job, JobState.CANCELLED, None, at_s)


@dataclass(frozen=True, slots=True)
class _Row:
    """A job of sacct's by Slurm's number, `end` None while it waits or runs; `may_go_on`: in a next run."""

    raw_id: str
    job: LiveJob
    end: EndedJob | None
    may_go_on: bool


def _last_runs(rows: Sequence[_Row]) -> dict[str, EndedJob]:
    """Return the ends of jobs, the latest of each; a task that was requeued has runs of several numbers."""
    alive = {row.job.job_id for row in rows if row.end is None}
    ended: dict[str, EndedJob] = {}
    for row in rows:
        job_id, end = row.job.job_id, row.end
        if end is None or job_id in alive:
            continue
        if job_id not in ended or end.end_time_s >= ended[job_id].end_time_s:
            ended[job_id] = end
    return ended


def _ask(options: Sequence[str], marks: MarkKey, partitions: Container[str], limit_s: float) -> list[_Row]:
    try:
        text = call([*_COMMAND, *options], settings=PLAIN_TIMES, limit_s=limit_s)
    except BadInputError as error:
        if NO_ACCOUNTING in str(error):
            raise NoAccountingError("This Slurm keeps no accounts (accounting_storage/none).") from error
        raise
    told = (_row(values, marks, partitions) for values in sacct_records(text, len(_FIELDS)))
    rows = [row for row in told if row is not None]
    if any(row.may_go_on for row in rows):
        # Asked after sacct: what was requeued by then is there.
        queue = call(["squeue", "--all", "--noheader", "--array", "--Format=JobID:0"], limit_s=limit_s)
        queued = set(queue.split())
        return [replace(row, end=None) if row.may_go_on and row.raw_id in queued else row for row in rows]
    return rows


def _row(values: Sequence[str], marks: MarkKey, partitions: Container[str]) -> _Row | None:
    (
        raw_id,
        shown_id,
        user,
        listed_partitions,
        name,
        comment,
        admin_comment,
        state_word,
        submit,
        start,
        end,
        time_limit,
        allocated,
        requested,
        cpus,
        nodes,
        *fact_texts,
    ) = values
    submit_s, end_s = time_s(submit), time_s(end)
    # slurmdbd learns of a very short job's end first, and seconds later what job it was.
    if submit_s is None or not listed_partitions or state_word.startswith(_REQUEUED):
        return None
    # Of a job that was cancelled while it waited some versions say that it started then.
    start_s = time_s(start) if allocated else None
    tasks = 1
    if "[" in shown_id:  # the tasks of an array that never started
        tasks, shown_id = count_tasks(shown_id.partition("[")[2].rstrip("]")), raw_id
    partition = home_partition(listed_partitions, partitions)
    origin = Origin.of(marks, (admin_comment, comment), raw_id, partition, submit_s)
    limit_s = float(time_limit) * 60 if time_limit.isdigit() else None
    gpus, shared_by = held_by_tres(allocated or requested)
    job = LiveJob(
        job_id=shown_id,
        partition=partition,
        virtual_cluster=origin.home,
        gpus=int(gpus) if gpus >= 1 else 0,
        submit_time_s=origin.submit_time_s,
        user=user or None,
        name=name or None,
        cpus=int(cpus) if cpus.isdigit() and cpus != "0" else None,
        nodes=int(nodes) if nodes.isdigit() else None,
        time_limit_s=None if limit_s == A_YEAR_S else limit_s,
        comment=comment,
        mark=origin.mark,
        tasks=tasks,
        start_time_s=start_s,
        shares_gpus=bool(shared_by),
        other_facts=other_facts(_FACT_COLUMNS, fact_texts, origin.home) | facts_of_tres(requested, requested),
    )
    state = slurm_state(state_word)
    if state not in _ENDED or end_s is None:
        return _Row(raw_id, job, None, may_go_on=False)
    ended = EndedJob.of_run(job, state, start_s, end_s)
    return _Row(raw_id, job, ended, may_go_on=state_word.startswith(_MAY_GO_ON))


def remembered(marks: MarkKey, limit_s: float) -> list[EndedJob]:
    """Return all jobs that have ended and that slurmctld remembers (its MinJobAge, minutes)."""
    ended = []
    for job, state_word, end_s in read_ended(marks, limit_s):
        state = slurm_state(state_word)
        if state not in _ENDED or state_word == _REQUEUED:
            continue
        ended.append(EndedJob.of_run(job, state, job.start_time_s, end_s))
    return ended
