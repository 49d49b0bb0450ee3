"""What Slurm's accounting knows of a time, as the lines of a log that the reader `sacct` reads.

One call asks for at most a day: more at once is hard on slurmdbd. A window of sacct holds all runs that were
about in it, so a job that ended comes again with the day of its end, whenever it was submitted; jobs by
their ids are for those that no window tells of. Slurm's own order of rows stays.

Whether a mark is one is not judged here: a reader of the lines has the key, or takes marks for words.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cluster_logs.slurm_mark import MarkKey, texts_like_marks
from cluster_logs.slurm_words import DEFAULT_FIELDS, UNIT_SEPARATOR, as_asked, gpus_of_gres, home_partition
from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.slurm.commands import call

# A random word, which ends fields.
FIELD_END = f"\x1f{secrets.token_hex(8)}"


def sacct_command(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the command for a record of each run of each user's jobs; options say which."""
    return (
        "sacct",
        "--allusers",
        "--allocations",
        "--noheader",
        "--noconvert",
        "--parsable2",
        f"--delimiter={FIELD_END}",
        f"--format={','.join(fields)}",
    )


def sacct_records(text: str, fields: int) -> Iterator[list[str]]:
    """Cut an answer into records of so many fields; a line's end parts two records, and is in no last field.

    Raises ServiceUnavailableError for an answer that broke off.
    """
    if not text:
        return
    pieces = text.split(FIELD_END)
    between = fields - 1
    if len(pieces) % between != 1:
        raise ServiceUnavailableError("sacct's answer broke off, or has other fields than were asked for.")
    first = pieces[0]
    for at in range(1, len(pieces), between):
        last, _, following = pieces[at + between - 1].partition("\n")
        yield [first, *pieces[at : at + between - 1], last]
        first = following


FIELDS = ("Comment", "AdminComment", *DEFAULT_FIELDS)
_COLUMNS = ("Comment", *DEFAULT_FIELDS)
# Of a log as it is written: what looks like a mark alone in the place of both comments.
HEADER = UNIT_SEPARATOR.join(_COLUMNS) + "\n"
# An argument list may be 128 KiB long; an id has ten digits.
IDS_OF_A_CALL = 2_000
CALL_LIMIT_S = 300.0
_COMMAND = (*sacct_command(FIELDS), "--duplicates")
_ON_UTC = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
_ID, _END, _PARTITION, _ASKED = (_COLUMNS.index(name) for name in ("JobIDRaw", "End", "Partition", "ReqTRES"))
_ONE_FIELD = str.maketrans({UNIT_SEPARATOR: " ", "\n": " ", "\r": " "})
_NOT_YET = ("Unknown", "None", "")


@dataclass(frozen=True)
class SlurmNode:
    """A node of a partition, with its GPUs."""

    partition: str
    name: str
    gpus: int


def days_between(start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Cut [start, end) at UTC midnights; the days that it touches, whole, the last until `end`.

    Raises BadInputError when nothing lies between.
    """
    first, last = start.astimezone(UTC), end.astimezone(UTC)
    if first >= last:
        raise BadInputError(
            f"The window ends at {last:%Y-%m-%d %H:%M} UTC, not after its start {first:%Y-%m-%d %H:%M}."
        )
    day = first.replace(hour=0, minute=0, second=0, microsecond=0)
    days = []
    while day < last:
        days.append((day, min(day + timedelta(days=1), last)))
        day += timedelta(days=1)
    return days


def runs_between(
    start: datetime, end: datetime, marks: Mapping[str, str], least_mib: Mapping[str, float] | None = None
) -> list[str]:
    """The lines of all runs that waited or ran in [start, end); `marks` by id are those of living jobs.

    `least_mib`: the memory of each partition's smallest node; a request for as much asked for none, and says
    none here.
    Raises ServiceUnavailableError when slurmdbd does not answer, BadInputError when there is no accounting.
    """
    # sacct counts whole seconds, and takes both ends as inside.
    until = end + timedelta(seconds=1) if end.microsecond else end
    window = (f"--starttime={_clock(start)}", f"--endtime={_clock(until)}")
    text = call([*_COMMAND, *window], settings=_ON_UTC, limit_s=CALL_LIMIT_S)
    return _lines(text, marks, least_mib or {})


def runs_of(
    job_ids: Sequence[str], marks: Mapping[str, str], least_mib: Mapping[str, float] | None = None
) -> list[str]:
    """The same of all runs of these jobs; ids that accounting does not know have none."""
    lines = []
    for at in range(0, len(job_ids), IDS_OF_A_CALL):
        jobs_option = f"--jobs={','.join(job_ids[at : at + IDS_OF_A_CALL])}"
        text = call([*_COMMAND, jobs_option], settings=_ON_UTC, limit_s=CALL_LIMIT_S)
        lines += _lines(text, marks, least_mib or {})
    return lines


def marks_of_living() -> dict[str, str]:
    """What looks like a mark on jobs that wait or run, by id: accounting learns of it when a run ends."""
    fields = ",".join(f"{name}:0{FIELD_END}" for name in ("JobID", "admin_comment", "Comment"))
    text = call(["squeue", "--all", "--noheader", "--array", f"--Format={fields}"])
    mark_of = {}
    for job_id, admin_comment, comment, _ in sacct_records(text, 4):
        if marks := _marks(admin_comment, comment):
            mark_of[job_id] = marks
    return mark_of


def gpu_nodes() -> list[SlurmNode]:
    """The nodes with GPUs of each partition, whatever state they are in, by partition and name."""
    text = call(["sinfo", "--all", "--noheader", "--Node", "--format=%R|%N|%G"])
    nodes = set()
    for line in text.splitlines():
        partition, name, gres = line.split("|", 2)
        gpus = gpus_of_gres(gres)
        if gpus:
            nodes.add(SlurmNode(partition, name, gpus))
    return sorted(nodes, key=lambda node: (node.partition, node.name))


def _lines(text: str, marks: Mapping[str, str], least_mib: Mapping[str, float]) -> list[str]:
    """The records of sacct's answer, one a line; of users' comments nothing but marks is kept."""
    lines = []
    for comment, admin_comment, *rest in sacct_records(text, len(FIELDS)):
        values = ["", *(value.translate(_ONE_FIELD) for value in rest)]
        if not values[_PARTITION]:
            continue  # slurmdbd learns of a very short job's end first, and seconds later what job it was
        values[0] = _marks(admin_comment, comment)
        values[_ASKED] = as_asked(values[_ASKED], least_mib.get(home_partition(values[_PARTITION])))
        if not values[0] and values[_END] in _NOT_YET:
            values[0] = marks.get(values[_ID], "")
        lines.append(UNIT_SEPARATOR.join(values) + "\n")
    return lines


def _marks(*comments: str) -> str:
    return " ".join(filter(None, map(texts_like_marks, comments)))


def _clock(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"


def job_id_of(line: str) -> str:
    """The JobIDRaw of a line."""
    return line.split(UNIT_SEPARATOR)[_ID]


def home_of(line: str, marks: MarkKey | None) -> str:
    """The partition that the job of a line belongs to."""
    values = line.split(UNIT_SEPARATOR)
    mark = None if marks is None else marks.read(values[0], values[_ID])
    return home_partition(values[_PARTITION]) if mark is None else mark.home
