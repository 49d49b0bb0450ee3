"""Changes to Slurm's jobs, through one scontrol.

What is asked of a job that a person holds is refused by Slurm itself: setting a priority does not release it,
and nothing here says `release` to a job that has not just taken a priority.

`release` makes Slurm compute a priority of its own again. With priority/basic that is one below the lowest it
has given, so the job goes behind everybody, and a job that goes back should be given the number that it had
(`ReturnToDefault.priority`). With priority/multifactor it is the priority that the job would have had.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cluster_logs.errors import BadInputError
from cluster_logs.slurm_mark import SlurmMark, Stage
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
from live_scheduler.slurm.commands import call, not_yet
from live_scheduler.slurm.job_comment import JobComment
from live_scheduler.slurm.queue_reading import QueueRow
from live_scheduler.slurm.scontrol_session import GIVEN_UP, ScontrolSession, fits_a_line

# Slurm counts down from 4,294,901,760 (0xFFFF0000) and nothing of its own ever lies above.
PRIORITIES = PriorityRange(4_294_902_000, 4_294_967_000, exclusive=True)

# So many seconds after its requeue a job may start again, on the same node too.
START_DELAY_S = 3
_LEAST_PUT_OFF_S, _MOST_PUT_OFF_S = 5.0, 3_600.0
_BASE_LIMIT_S, _LIMIT_OF_A_CHANGE_S = 30.0, 0.02
_DENIED = re.compile(r"denied|invalid user", re.IGNORECASE)
# What `call` makes of bytes that are no text: a comment with them cannot be written back as it was.
_NO_TEXT = re.compile(r"\\x[89a-f][0-9a-f]")


class Control:
    """Makes changes to the jobs of the last reading. `clock` is monotonic, in seconds."""

    def __init__(self, profiling_partition: str = "", *, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is asked yet."""
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
            case SetPriority(priority=priority) if _is_ours(priority) and not row.nice:
                return f"{job} Priority={priority}"
            case RestrictToNode(node=node) if node is None or fits_a_line(node):
                return f"{job} ReqNodeList={node or ''}"
            case StartAfter(delay_s=delay_s):
                return f"{job} StartTime=now{f'+{delay_s}' if delay_s > 0 else ''}"
        return None

    def _more(self, session: ScontrolSession, change: Change, rows: dict[str, QueueRow]) -> str:
        """Make a change that takes more than a line; return why it was refused, "" when it was made."""
        job_id = change.job_id
        job = _Job(session, rows, job_id)
        match change:
            case SetPriority(priority=priority):
                return job.set_priority(priority)
            case Advise(text=text):
                return job.write(replace(rows[job_id].comment, advice=text))
            case ReturnToDefault(priority=priority):
                return self._return(job, priority)
            case MoveTo(partition=partition, home=home):
                if not fits_a_line(partition):
                    return f"{partition!r} is no partition."
                at_home = partition == home and partition != self._profiling_partition
                why = self._mark(job, home, Stage.HOME if at_home else Stage.PROFILING)
                return why or job.update(f"Partition={partition}")
            case SendHome(home=home, priority=priority):
                return self._send_home(job, home, priority)
            case _:
                return f"Slurm cannot do {change}."

    def _mark(self, job: "_Job", home: str, stage: Stage) -> str:
        if not fits_a_line(home):
            return f"{home!r} is no partition."
        row = job.row
        mark = SlurmMark(home, int(row.job.submit_time_s), stage)
        admin_comment = mark.written_beside(row.admin_comment)
        if not self._marks_in_comments and fits_a_line(admin_comment):
            why = job.update(f"AdminComment={admin_comment}")
            if not _DENIED.search(why):
                return why
            self._marks_in_comments = True
        return job.write(replace(row.comment, mark=mark.to_text()))

    def _send_home(self, job: "_Job", home: str, priority: int | None) -> str:
        why = self._mark(job, home, Stage.PROFILING) or job.tell(f"requeue {job.row.target}")
        # At once is too soon: a node refuses a job's credential of the second in which it revoked the last.
        why = why or job.update(f"Partition={home} StartTime=now+{START_DELAY_S}")
        why = why or self._mark(job, home, Stage.HOME)
        return why if why or priority is None else job.set_priority(priority)

    def _return(self, job: "_Job", priority: int | None) -> str:
        if self._computes_priorities is None:
            self._computes_priorities = "priority/basic" not in call(["scontrol", "show", "config"])
        if priority and not self._computes_priorities and not _is_ours(priority):
            why = job.update(f"Priority={priority}")
        else:
            # A job that takes a priority is held by nobody; one that is held must not be released.
            why = job.update(f"Priority={PRIORITIES.least}") or job.tell(f"release {job.row.target}")
            if nice := job.row.comment.nice or job.row.nice:
                why = why or job.update(f"Nice={nice}")
        return why or job.write(replace(job.row.comment, nice=0))


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

    def __init__(self, session: ScontrolSession, rows: dict[str, QueueRow], job_id: str) -> None:
        self._session, self._rows, self._id = session, rows, job_id

    @property
    def row(self) -> QueueRow:
        return self._rows[self._id]

    def tell(self, line: str) -> str:
        return self._session.tell([line])[0]

    def update(self, words: str) -> str:
        return self.tell(f"update JobId={self.row.target} {words}")

    def set_priority(self, priority: int) -> str:
        if not _is_ours(priority):
            return f"{priority} is not between {PRIORITIES.least} and {PRIORITIES.most}."
        before = self.row.comment
        if self.row.nice and (why := self.write(replace(before, nice=self.row.nice))):
            return why
        why = self.update(f"Priority={priority}")
        if why:
            self.write(before)
        return why

    def write(self, comment: JobComment) -> str:
        """Write what is to stand beside the job."""
        row, text = self.row, comment.to_text()
        if comment == row.comment:
            return ""
        if _NO_TEXT.search(comment.words):
            return "Its comment is not UTF-8, and would not be the same afterwards."
        if fits_a_line(text):
            why = self.update(f"Comment={text}")
        else:
            try:
                call(["scontrol", "update", f"JobId={row.target}", f"Comment={text}"])
                why = ""
            except BadInputError as error:
                why = str(error)
        if not why:
            self._rows[self._id] = replace(row, comment=comment)
        return why


def _is_ours(priority: int) -> bool:
    return PRIORITIES.least <= priority <= PRIORITIES.most


def _told(session: ScontrolSession, lines: Mapping[int, str]) -> dict[int, str]:
    return dict(zip(lines, session.tell(list(lines.values())), strict=True))
