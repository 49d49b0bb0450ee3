"""The queue as squeue prints it: every job that waits or runs.

Names and comments may hold anything, line ends included, so fields and records end with words that cannot
be guessed: they are drawn anew in every process. Times are asked for as Unix seconds, and in UTC where a
version of Slurm does not know how.

What this relies on, each seen on Slurm 22.05 (`tests/slurm/test_slurm_adapter*.py`):

- The tasks of an array that have not started are one record, whose JobID is the array's. A task that starts,
  or is held, requeued or changed alone, gets a JobID of its own; the last one keeps the array's. squeue
  merges those that wait into the array's line, and shows of it what one record has (24.11 too): which record
  a task belongs to is seen with `--array` alone. (`--array-unique`, a line a record, is gone in 24.11.)
- `tres-alloc` is what a waiting job asks for and what a running job has, as sacct's ReqTRES and AllocTRES,
  but with GPUs only where AccountingStorageTRES names gres/gpu. A running job has the memory that it asked
  for, or none where memory is not shared out (CR_Core); of GPUs it may have a type that it did not ask for.
- A job that shares no node (`--exclusive`) gets all GPUs and cores of its nodes.
- A job without a limit in a partition without one gets 365 days when it starts.
- Accounting has ` for each " in a job's name; a name is read as it will stand there.
"""

import re
import secrets
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cluster_logs.host_lists import expand_hosts
from cluster_logs.slurm_mark import MarkKey
from cluster_logs.slurm_words import (
    HeldGpus,
    elapsed_s,
    facts_of_tres,
    gpu_words,
    gpus_held,
    held_by_tres,
    home_partition,
)
from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.cluster_state import LiveJob
from live_scheduler.slurm.commands import NO_SUCH_JOB, call
from live_scheduler.slurm.node_reading import NodeKind
from live_scheduler.slurm.other_facts import NOTHING, fact_columns, other_facts
from live_scheduler.slurm.slurm_memory import JobComment, Origin, SlurmMemory

# In the environment of every program whose times or array indices are read.
PLAIN_TIMES = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}

_FACT_COLUMNS = fact_columns("squeue")
_OWN_FIELDS = (
    "JobID",
    "ArrayJobID",
    "ArrayTaskID",
    "HetJobID",
    "HetJobOffset",
    "State",
    "UserName",
    "Partition",
    "PriorityLong",
    "Nice",
    "Reason",
    "Dependency",
    "SubmitTime",
    "StartTime",
    "EligibleTime",
    "TimeLimit",
    "NumCPUs",
    "NumNodes",
    "NumTasks",
    "tres-alloc",
    "tres-per-job",
    "tres-per-node",
    "tres-per-task",
    "OverSubscribe",
    "Requeue",
    "RestartCnt",
    "NodeList",
    "ReqNodes",
    "Name",
    "Comment",
    "admin_comment",
    "EndTime",
    "Reservation",
)
QUEUE_FIELDS = (*_OWN_FIELDS, *_FACT_COLUMNS.values())
_AT = {name: at for at, name in enumerate(QUEUE_FIELDS)}

FIELD_END = f"\x1f{secrets.token_hex(8)}"
RECORD_END = f"\x1e{secrets.token_hex(8)}\n"
_FORMAT = ",".join(
    f"{name}:0{RECORD_END[:-1] if at == len(QUEUE_FIELDS) - 1 else FIELD_END}"
    for at, name in enumerate(QUEUE_FIELDS)
)
SQUEUE = ("squeue", "--all", "--noheader", f"--Format={_FORMAT}")

# Reasons for which a job would not start if it had GPUs. All others, those of later versions among them, say
# that it waits for its turn or for nodes.
_BARRED = re.compile(
    r"Dependency|BeginTime|Reservation|maintenance|UnavailableNodes|Licenses|Limit|BadConstraints|Deadline"
    r"|^Assoc|^QOS|^Max|^Invalid|NotAllowed|^Partition|^BurstBuffer|^Federation|^Power|^AccountingPolicy",
    re.IGNORECASE,
)
_HELD_STATES = frozenset({"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_WAITING_STATES = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", *_HELD_STATES})
_HELD = re.compile(r"held|JobHold", re.IGNORECASE)
A_YEAR_S = 365 * 86_400.0
_COUNT = re.compile(r"(\d+)([KMG]?)")
_THOUSANDS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
# Dependencies on the start of another job: `after:17+5,after:18`.
_STARTS = re.compile(r"(?:^|[,?])after:([0-9_]+)")
_NODES_TOLD = re.compile(r"(?:^|,)node=(\d+)")
_SPANS = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A job as squeue shows it, and where it runs; `waited_for`: jobs whose start it waits for.

    `raw_id` is Slurm's own number of the record (JobIDRaw), `target` what scontrol is to change
    (`123_[5-9]`: an array's record as a whole), the comments all that stands there. `uneven`: its nodes may
    differ in its GPUs; `ending`: its run is being cleared up; `may_requeue`: its user allows that;
    `shared_by`: how it shares GPUs (`slurm_words.HeldGpus`).
    """

    job: LiveJob
    raw_id: str
    target: str
    comment: JobComment
    admin_comment: str
    nodes: tuple[str, ...]
    waited_for: tuple[str, ...]
    uneven: bool = False
    ending: bool = False
    may_requeue: bool = True
    shared_by: str = ""


@dataclass
class QueueReader:
    """Reads queues; a record that reads as it did the last time is not parsed again."""

    memory: SlurmMemory = field(default_factory=SlurmMemory)
    _known: dict[str, QueueRow] = field(default_factory=dict)
    _kinds: Mapping[str, NodeKind] = field(default_factory=dict)

    def read(self, kinds: Mapping[str, NodeKind], limit_s: float) -> list[QueueRow]:
        """Return all jobs that wait or run, in squeue's order.

        `kinds` are the nodes of partitions whose nodes are all alike. Raises ServiceUnavailableError.
        """
        records = records_of(_squeue((), limit_s))
        merged = {
            values[_AT["ArrayJobID"]]
            for values in records
            if values[_AT["State"]] in _WAITING_STATES and count_tasks(values[_AT["ArrayTaskID"]]) > 1
        }
        if split := merged and _arrays_of_several_records(merged, limit_s):
            records = [record for record in records if record[_AT["ArrayJobID"]] not in split]
            records += _records_of_arrays(split, limit_s)
        return self.parse(records, kinds)

    def parse(self, records: Sequence[Sequence[str]], kinds: Mapping[str, NodeKind]) -> list[QueueRow]:
        """Return the jobs of squeue's records, field by field."""
        cached_rows = self._known if kinds == self._kinds else {}
        rows: dict[str, QueueRow] = {}
        overwritten, marks = self.memory.overwritten, self.memory.marks
        for values in records:
            if values[_AT["State"]] in _WAITING_STATES:  # guesses of Slurm's, which change all the time
                values = list(values)
                values[_AT["StartTime"]] = values[_AT["EndTime"]] = ""
            # A task that has left its array's record took with it what stood there.
            words = overwritten.of(values[0]).comment
            if words is None:
                words = overwritten.of(values[_AT["ArrayJobID"]]).comment
            key = FIELD_END.join(values) if words is None else FIELD_END.join([*values, words])
            rows[key] = cached_rows.get(key) or _row(values, kinds, marks, words)
        self._known, self._kinds = rows, dict(kinds)
        return list(rows.values())


def read_ended(marks: MarkKey, limit_s: float) -> list[tuple[LiveJob, str, float]]:
    """Return the jobs that have ended and that slurmctld remembers, with their states' names and ends."""
    finished = "BF,CA,CD,DL,F,NF,OOM,PR,RV,TO"
    ended = []
    for values in records_of(_squeue((f"--states={finished}",), limit_s)):
        end_s = time_s(values[_AT["EndTime"]])
        if end_s is not None:
            ended.append((_row(values, {}, marks, None).job, values[_AT["State"]], end_s))
    return ended


def _squeue(options: Sequence[str], limit_s: float) -> str:
    try:
        return call([*SQUEUE, *options], settings=PLAIN_TIMES, limit_s=limit_s)
    except BadInputError as error:
        if "admin_comment" not in str(error):
            raise
    # So later versions call it.
    renamed = [word.replace("admin_comment:", "AdminComment:") for word in SQUEUE]
    return call([*renamed, *options], settings=PLAIN_TIMES, limit_s=limit_s)


def records_of(text: str) -> list[list[str]]:
    """Return the records of squeue's answer to `SQUEUE`, field by field."""
    if not text:
        return []
    *records, rest = text.split(RECORD_END)
    fields = [record.split(FIELD_END) for record in records]
    if rest.strip() or any(len(values) != len(QUEUE_FIELDS) for values in fields):
        raise ServiceUnavailableError("squeue's answer broke off, or has other fields than were asked for.")
    return fields


def _arrays_of_several_records(arrays: Set[str], limit_s: float) -> set[str]:
    """Return those of the arrays whose waiting tasks are not all in one record, by a short line a task."""
    fields = ",".join(f"{name}:0|" for name in ("ArrayJobID", "JobID", "State"))
    text = call(["squeue", "--all", "--noheader", "--array", f"--Format={fields}"], limit_s=limit_s)
    records: dict[str, str] = {}
    split = set()
    for line in text.splitlines():
        array_id, raw_id, state, *_ = line.split("|")
        if array_id in arrays and state in _WAITING_STATES and records.setdefault(array_id, raw_id) != raw_id:
            split.add(array_id)
    return split


def _records_of_arrays(arrays: Set[str], limit_s: float) -> list[list[str]]:
    """Return Slurm's records of arrays: the lines of tasks, one each, that share a JobID."""
    try:
        tasks = records_of(_squeue(("--array", f"--jobs={','.join(sorted(arrays))}"), limit_s))
    except BadInputError as error:  # all of them have ended
        if NO_SUCH_JOB not in str(error):
            raise
        return []
    together: dict[str, list[str]] = {}
    task_id = _AT["ArrayTaskID"]
    for values in tasks:
        record = together.get(values[0])
        if record is None:
            together[values[0]] = list(values)
        else:
            record[task_id] += f",{values[task_id]}"
    return list(together.values())


def _row(values: Sequence[str], kinds: Mapping[str, NodeKind], marks: MarkKey, words: str | None) -> QueueRow:
    (
        raw_id,
        array_id,
        task_ids,
        het_id,
        het_offset,
        state,
        user,
        listed_partitions,
        priority,
        nice,
        reason,
        dependency,
        submitted,
        started,
        eligible,
        time_limit,
        cpus,
        nodes,
        tasks,
        tres,
        per_job,
        per_node,
        per_task,
        oversubscribe,
        requeue,
        restarts,
        node_list,
        pinned_to,
        name,
        comment,
        admin_comment,
        _ended,
        reservation,
        *fact_texts,
    ) = values
    waiting = state in _WAITING_STATES
    target, shown_id, array_tasks = raw_id, raw_id, 1
    if task_ids not in NOTHING:
        if not task_ids.isdigit() or (waiting and raw_id == array_id and restarts == "0"):
            array_tasks = count_tasks(task_ids)
            target = f"{array_id}_[{task_ids.partition('%')[0]}]"
        else:
            target = shown_id = f"{array_id}_{task_ids}"
    elif het_id not in NOTHING and het_offset not in NOTHING:
        # The number of the first component alone would stand for all of them.
        target = shown_id = f"{het_id}+{het_offset}"

    # A job of several partitions could not be given them back: `requeueable` says so. Those
    # that are deleted meanwhile are not listed any more.
    partition = home_partition(listed_partitions)
    # Of a waiting job with many tasks `NumNodes` may be more than it needs.
    nodes_in_tres = _NODES_TOLD.search(tres)
    number_of_nodes = int(nodes_in_tres[1]) if nodes_in_tres else _count(nodes, 1)
    told = _gpus(tres, per_job, per_node, per_task, number_of_nodes, _count(tasks, 1))
    gpus = int(told.gpus) if told.gpus >= 1 else 0
    cores = _count(cpus, 0)
    kind = kinds.get(partition)
    # Of a run too where Slurm does not account for GPUs.
    if oversubscribe == "NO" and kind is not None and (waiting or "gres/gpu" not in tres):
        gpus, cores = max(gpus, number_of_nodes * kind.gpus), max(cores, number_of_nodes * kind.cpus)
    hosts = () if waiting or node_list in NOTHING else tuple(expand_hosts(node_list))

    # squeue's words for no comment; `None` may be a user's.
    admin_comment, comment = ("" if text == "(null)" else text for text in (admin_comment, comment))
    written = JobComment.parse(comment, words, lambda part: marks.read(part, raw_id) is not None)
    submit_s = time_s(submitted)
    if submit_s is None:
        raise ServiceUnavailableError(f"squeue says that job {shown_id} was submitted at {submitted!r}.")
    origin = Origin.of(marks, (admin_comment, comment), raw_id, partition, submit_s)
    begin_s = time_s(eligible) if waiting else None
    held = waiting and (priority == "0" or state in _HELD_STATES or _HELD.search(reason) is not None)
    limit_s = elapsed_s(time_limit)
    asked = facts_of_tres(tres, per_job, per_node, per_task, tres if waiting else "")
    job = LiveJob(
        job_id=shown_id,
        partition=partition,
        virtual_cluster=origin.home,
        gpus=gpus,
        submit_time_s=origin.submit_time_s,
        user=user or None,
        name=name.replace('"', "`") or None,
        cpus=cores or None,
        nodes=number_of_nodes,
        time_limit_s=None if limit_s == A_YEAR_S else limit_s,
        priority=int(priority) if priority.isdigit() else None,
        held=held,
        waits_for=_waits_for(reason, dependency) if waiting else "",
        reason="" if reason in NOTHING else reason,
        comment=written.words,
        mark=origin.mark,
        advice=written.advice,
        requeueable=requeue == "1"
        and all(each in NOTHING for each in (task_ids, het_id))
        and partition == listed_partitions,
        pinned_to=_said(pinned_to),
        begin_time_s=begin_s if begin_s is not None and begin_s > submit_s else None,
        restarts=_count(restarts, 0),
        tasks=array_tasks,
        # A job that was cancelled while it waited says that it started then.
        start_time_s=time_s(started) if hosts else None,
        gpus_on=_evenly(gpus, hosts),
        shares_gpus=bool(told.shared_by),
        other_facts=other_facts(_FACT_COLUMNS, fact_texts, origin.home) | asked,
        nice=int(nice) if nice.lstrip("-").isdigit() else 0,
        comment_by_others=words is not None and written.words != words,
        reserved_in=_said(reservation),
    )
    return QueueRow(
        job,
        raw_id,
        target,
        written,
        admin_comment,
        hosts,
        tuple(_STARTS.findall(dependency)),
        uneven=len(hosts) > 1 and gpus > 0 and not any(gpu_words(per_node)),
        shared_by=told.shared_by,
        ending=state == "COMPLETING",
        may_requeue=requeue == "1" and het_id in NOTHING,
    )


def count_tasks(text: str) -> int:
    """Return how many tasks `1,3-9:2%4` are."""
    count = 0
    for first, last, step in _SPANS.findall(text.partition("%")[0]):
        count += 1 if not last else (int(last) - int(first)) // int(step or 1) + 1
    return max(count, 1)


def _gpus(tres: str, per_job: str, per_node: str, per_task: str, nodes: int, tasks: int) -> HeldGpus:
    """GPUs in all: of tres-alloc, unless it names none, or not that they are slices; then as asked for."""
    held = held_by_tres(tres)
    for text, times in ((per_job, 1), (per_node, nodes), (per_task, tasks)):
        asked = [word._replace(amount=word.amount * times) for word in gpu_words(text)]
        if asked and (held.gpus < 1 or (not held.shared_by and any(word.sevenths for word in asked))):
            return gpus_held(asked, nodes)
    return held


def _evenly(gpus: int, hosts: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    if not gpus or not hosts:
        return ()
    each, more = divmod(gpus, len(hosts))
    return tuple((host, each + (at < more)) for at, host in enumerate(hosts) if each + (at < more))


def _waits_for(reason: str, dependency: str) -> str:
    if dependency not in NOTHING:
        return "Dependency"
    return reason if _BARRED.search(reason) else ""


def time_s(text: str) -> float | None:
    """Return Unix seconds, given as such or as a time in UTC; None for a word such as `Unknown`."""
    if text.isdigit():
        return float(text)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _count(text: str, otherwise: int) -> int:
    matched = _COUNT.match(text)
    return int(matched[1]) * _THOUSANDS[matched[2]] if matched else otherwise


def _said(text: str) -> str:
    return "" if text in ("(null)", "None") else text
