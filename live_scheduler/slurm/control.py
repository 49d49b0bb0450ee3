"""Changes to Slurm's jobs, through one scontrol.

What is asked of a job that a person holds is refused by Slurm itself: setting a priority does not release it,
and nothing here says `release` to a job that has not just taken a priority.

`release` makes Slurm compute a priority of its own again. With priority/basic that is one below the lowest it
has given, so the job goes behind all others, and a job that goes back should be given the number that it had
(`ReturnToDefault.priority`). With priority/multifactor it is the priority that the job would have had.

Slurm sets the nice value of a job that takes a priority to 0, and comments are written over: what stood there
is written down first (`slurm_memory.Overwritten`), and given back from there alone.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from cluster_logs.slurm_mark import MarkStage, SlurmMark, texts_like_marks
from foundation.errors import BadInputError
from live_scheduler.adapter import (
    Advise,
    Change,
    MoveTo,
    PriorityRange,
    Refusal,
    RestrictToNode,
    ReturnToDefault,
    SendHome,
    SetPriority,
    StartAfter,
)
from live_scheduler.slurm.commands import call, change_cluster, not_yet
from live_scheduler.slurm.queue_reading import QueueRow
from live_scheduler.slurm.scontrol_session import GIVEN_UP, ScontrolSession, fits_a_line
from live_scheduler.slurm.slurm_memory import Before, JobComment, SlurmMemory

# Slurm counts down from 4,294,901,760 (0xFFFF0000) and nothing of its own ever lies above.
PRIORITIES = PriorityRange(4_294_902_000, 4_294_967_000, exclusive=True)

# So many seconds after its requeue a job may start again, on the same node too.
START_DELAY_S = 3
_LEAST_PUT_OFF_S, _MOST_PUT_OFF_S = 5.0, 3_600.0
_BASE_LIMIT_S, _LIMIT_OF_A_CHANGE_S = 30.0, 0.02
_DENIED = re.compile(r"denied|invalid user", re.IGNORECASE)
# What `call` makes of bytes that are no text: a comment with them cannot be written back as it was.
_NO_TEXT = re.compile(r"\\x[89a-f][0-9a-f]")
_UNWRITTEN = "What stands there cannot be written down"


class Control:
    """Makes changes to the jobs of the last reading. `clock` is monotonic, in seconds."""

    def __init__(
        self,
        profiling_partition: str = "",
        *,
        memory: SlurmMemory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is asked yet. `memory`: the key of marks, and what was written over before."""
        self._memory = memory or SlurmMemory()
        self._put_off = _PutOff(clock)
        self._profiling_partition = profiling_partition
        self._marks_in_comments = False  # until Slurm refuses to write an AdminComment
        self._computes_priorities: bool | None = None

    def apply(self, changes: Sequence[Change], rows: dict[str, QueueRow]) -> list[Refusal]:
        """Make the changes in their order; `rows` are the jobs by id, as they were read last.

        What is written beside jobs is brought up to date in `rows`, since each such change writes all of it.
        Raises ServiceUnavailableError; some changes may have been made by then.
        """
        refused: dict[int, str] = {}
        self._write_down(changes, rows)
        limit_s = _BASE_LIMIT_S + _LIMIT_OF_A_CHANGE_S * len(changes)
        with ScontrolSession(limit_s) as session:
            plain: dict[int, str] = {}  # lines that may travel together
            for at, change in enumerate(changes):
                row = rows.get(change.job_id)
                if row is None:
                    refused[at] = "It neither waits nor runs."
                elif why := self._put_off.why(change.job_id):
                    refused[at] = why
                elif (line := self._one_line(change, row)) is not None:
                    plain[at] = line
                else:
                    refused |= _told(session, plain)
                    plain = {}
                    refused[at] = self._more(session, change, rows)
            refused |= _told(session, plain)
        answers = [(change, refused.get(at, "")) for at, change in enumerate(changes)]
        self._put_off.take(answers, rows)
        return [Refusal(change, why, unreached=why == GIVEN_UP) for change, why in answers if why]

    def _one_line(self, change: Change, row: QueueRow) -> str | None:
        """Return the one line that makes a change, if one can."""
        job = f"update JobId={row.target}"
        match change:
            case SetPriority(priority=priority) if _is_ours(priority) and self._nice_is_known(row):
                return f"{job} Priority={priority}"
            case RestrictToNode(node=node) if node is None or fits_a_line(node):
                return f"{job} ReqNodeList={node or ''}"
            case StartAfter(delay_s=delay_s):
                return f"{job} StartTime=now{f'+{delay_s}' if delay_s > 0 else ''}"
        return None

    def _more(self, session: ScontrolSession, change: Change, rows: dict[str, QueueRow]) -> str:
        """Make a change that takes more than a line; return why it was refused, "" when it was made."""
        job_id = change.job_id
        job = _Job(session, rows, job_id, self._memory)
        match change:
            case SetPriority(priority=priority) if not _is_ours(priority):
                return f"{priority} is not between {PRIORITIES.least} and {PRIORITIES.most}."
            case SetPriority():
                return f"{_UNWRITTEN}: its nice value would be lost."
            case Advise(text=text):
                return job.write(replace(rows[job_id].comment, advice=text))
            case ReturnToDefault(priority=priority, by_hand=by_hand):
                return _left(job, priority) if by_hand else self._return(job, priority)
            case MoveTo(partition=partition, home=home):
                if not partition or not fits_a_line(partition):
                    return f"{partition!r} is no partition."
                at_home = partition == home and partition != self._profiling_partition
                why = self._mark(
                    job, home, MarkStage.HOME if at_home else MarkStage.PROFILING, needed=not at_home
                )
                return why or job.update(f"Partition={partition}")
            case SendHome(home=home, priority=priority):
                return self._send_home(job, home, priority)
            case _:
                return f"Slurm cannot do {change}."

    def _nice_is_known(self, row: QueueRow) -> bool:
        return _makes_room(row) or row.job.nice in (0, self._memory.overwritten.of(row.raw_id).nice)

    def _before(self, row: QueueRow) -> Before:
        """Return what stood on a job; a task that took our priority along has its array's nice value."""
        before = self._memory.overwritten.of(row.raw_id)
        array_id, is_task, _ = row.job.job_id.partition("_")
        if not is_task or before.nice or row.job.nice or not _is_ours(row.job.priority or 0):
            return before
        return replace(before, nice=self._memory.overwritten.of(array_id).nice)

    def _write_down(self, changes: Sequence[Change], rows: Mapping[str, QueueRow]) -> None:
        """Write down, in one piece, what the changes write over; what could not be is not written over."""
        overwritten = self._memory.overwritten
        noted: dict[str, Before] = {}
        for change in changes:
            row = rows.get(change.job_id)
            if row is None:
                continue
            before = noted.get(row.raw_id, self._before(row))
            if isinstance(change, SetPriority) and row.job.nice and not _makes_room(row):
                before = replace(before, nice=row.job.nice)
            elif isinstance(change, Advise) and change.text:
                before = replace(before, comment=row.comment.words)
            noted[row.raw_id] = before
        with suppress(OSError):
            overwritten.note(noted)

    def _mark(self, job: "_Job", home: str, stage: MarkStage, *, needed: bool) -> str:
        """Mark the job; the way home is open also for one that cannot be marked (not `needed`)."""
        if not home or not fits_a_line(home):
            return f"{home!r} is no partition."
        row = job.row
        mark = self._memory.marks.sealed(SlurmMark(home, int(row.job.submit_time_s), stage), row.raw_id)
        # One that an admin's program uses for something else is not ours to write over.
        free = texts_like_marks(row.admin_comment) == row.admin_comment
        if not self._marks_in_comments and free:
            why = job.update(f"AdminComment={mark}")
            if not _DENIED.search(why):
                return why
            self._marks_in_comments = True
        why = job.write(replace(row.comment, mark=mark))
        return why if needed else ""

    def _send_home(self, job: "_Job", home: str, priority: int | None) -> str:
        why = self._mark(job, home, MarkStage.PROFILING, needed=False) or job.tell(
            f"requeue {job.row.target}"
        )
        # At once is too soon: a node refuses a job's credential of the second in which it revoked the last.
        why = why or job.update(f"Partition={home} StartTime=now+{START_DELAY_S}")
        why = why or self._mark(job, home, MarkStage.HOME, needed=False)
        if why or priority is None:
            return why
        if not _is_ours(priority):
            return f"{priority} is not between {PRIORITIES.least} and {PRIORITIES.most}."
        return job.update(f"Priority={priority}")

    def _return(self, job: "_Job", priority: int | None) -> str:
        if self._computes_priorities is None:
            self._computes_priorities = "priority/basic" not in call(["scontrol", "show", "config"])
        row = job.row
        before = self._before(row)
        if priority and not self._computes_priorities and not _is_ours(priority):
            why = job.update(f"Priority={priority}")
        else:
            # A job that takes a priority is not held; one that is held must not be released.
            why = job.update(f"Priority={PRIORITIES.least}") or job.tell(f"release {row.target}")
            if nice := before.nice or (0 if _makes_room(row) else row.job.nice):
                why = why or job.update(f"Nice={nice}")
        if not why and before.nice:
            with suppress(OSError):  # it is given back another time, and is the same
                self._memory.overwritten.note({row.raw_id: replace(before, nice=0)})
        return why


class _PutOff:
    """Jobs that Slurm could not change when it was last asked: each such question costs seconds.

    The longer a job stays so, the longer it is left alone.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, tuple[float, float, str]] = {}  # until when, for how long, why

    def why(self, job_id: str) -> str:
        """Say why a job is not to be asked for now, "" when it may be."""
        until_s, _, why = self._jobs.get(job_id, (-math.inf, 0.0, ""))
        return why if self._clock() < until_s else ""

    def take(self, answers: Sequence[tuple[Change, str]], rows: Mapping[str, QueueRow]) -> None:
        """Learn what was said of changes, "" where one was made; `rows` are all jobs that there are."""
        now_s = self._clock()
        made = {change.job_id for change, why in answers if not why}
        self._jobs = {
            job_id: one for job_id, one in self._jobs.items() if job_id in rows and job_id not in made
        }
        for change, why in answers:
            until_s, lasts_s, _ = self._jobs.get(change.job_id, (-math.inf, 0.0, ""))
            if not_yet(why) and now_s >= until_s:
                lasts_s = min(max(2.0 * lasts_s, _LEAST_PUT_OFF_S), _MOST_PUT_OFF_S)
                self._jobs[change.job_id] = now_s + lasts_s, lasts_s, why


class _Job:
    """A job that is changed; every method returns why it was refused, "" when it was done."""

    def __init__(
        self, session: ScontrolSession, rows: dict[str, QueueRow], job_id: str, memory: SlurmMemory
    ) -> None:
        self._session, self._rows, self._id, self._overwritten = session, rows, job_id, memory.overwritten

    @property
    def row(self) -> QueueRow:
        return self._rows[self._id]

    def tell(self, line: str) -> str:
        return self._session.tell([line])[0]

    def update(self, words: str) -> str:
        return self.tell(f"update JobId={self.row.target} {words}")

    def write(self, comment: JobComment) -> str:
        """Write what is to stand beside the job; its user's words alone come back exactly as they were."""
        row, text = self.row, comment.to_text()
        if comment == row.comment:
            return ""
        if _NO_TEXT.search(comment.words):
            return "Its comment is not UTF-8, and would not be the same afterwards."
        ours = bool(comment.mark or comment.advice)
        before = self._overwritten.of(row.raw_id)
        if ours and before.comment != comment.words:
            try:
                self._overwritten.note({row.raw_id: replace(before, comment=comment.words)})
            except OSError as error:
                return f"{_UNWRITTEN} ({error}): its user's comment could not be given back."
        if fits_a_line(text):
            why = self.update(f"Comment={text}")
        else:
            try:
                change_cluster(["scontrol", "update", f"JobId={row.target}", f"Comment={text}"])
                why = ""
            except BadInputError as error:
                why = str(error)
        if not why:
            self._rows[self._id] = replace(row, comment=comment)
            if not ours:
                with suppress(OSError):  # then it is looked for again, and not found
                    self._overwritten.note({row.raw_id: replace(before, comment=None)})
        return why


def _left(job: "_Job", priority: int | None) -> str:
    """Leave a job with the priority that a person gave it, which the backfill may have written over."""
    present = job.row.job.priority or 0
    if priority is None or present == priority or not _is_ours(present):
        return ""
    return job.update(f"Priority={priority}")


def _makes_room(row: QueueRow) -> bool:
    """Return whether a nice value is `scontrol top`'s: on a number of ours nothing else sets one."""
    return row.job.nice != 0 and _is_ours(row.job.priority or 0)


def _is_ours(priority: int) -> bool:
    return PRIORITIES.least <= priority <= PRIORITIES.most


def _told(session: ScontrolSession, lines: Mapping[int, str]) -> dict[int, str]:
    return dict(zip(lines, session.tell(list(lines.values())), strict=True))
