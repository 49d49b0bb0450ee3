"""What the live scheduler writes on Slurm's jobs, and what stood there before: STATE/overwritten.jsonl.

    {"job_id": "17", "comment": "fine-tuning, second try", "nice": 100}
    {"job_id": "17"}                                                       it stands there again

`job_id` is Slurm's own number of the record. Users may write into a comment whatever they like, also what
looks like ours, so what is to be given back is known from here alone. Written, and on the disk, before Slurm
is asked. A job's comment has its user's own words, and behind them ours:

    fine-tuning, second try | lucid: starts 14:05 to 14:20

The spaces in ours, the one before the bar included, are no-break spaces (U+00A0): `scontrol` on standard
input splits its lines at plain ones, and keeps the quotes that would prevent it. The mark of a profiled job
(`cluster_logs.slurm_mark`) stands here too where AdminComment may not be written: Slurm leaves that to
adminlevel=Admin.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster_logs.slurm_mark import MARK_KEY_FILE, MarkKey, make_mark_key
from foundation.errors import LucidError
from live_scheduler.memory.records import LastLines

logger = logging.getLogger("lucid.live")
OVERWRITTEN_FILE = "overwritten.jsonl"
_SPACE = "\u00a0"
_SEPARATOR = f"{_SPACE}|{_SPACE}"
_ADVICE = f"lucid:{_SPACE}"


@dataclass(frozen=True, slots=True)
class JobComment:
    """The parts of a comment; `mark` is the text of a mark (`SlurmMark`), `advice` what people read."""

    words: str = ""
    mark: str = ""
    advice: str = ""

    @classmethod
    def parse(cls, text: str, words: str | None, is_mark: Callable[[str], bool]) -> "JobComment":
        """Return the parts of a comment.

        `words` stood there before ours was written behind them; None: nothing of ours was. A comment that
        does not begin so, or goes on otherwise than ours does, was written anew: it is its user's as a whole.
        """
        whole = cls(words=text)
        if words is None or text == words or not text.startswith(words):
            return whole
        rest = text[len(words) :]
        if words:
            if not rest.startswith(_SEPARATOR):
                return whole
            rest = rest.removeprefix(_SEPARATOR)
        mark = ""
        if not rest.startswith(_ADVICE):
            mark, _, rest = rest.partition(_SEPARATOR)
            if not is_mark(mark) or (rest and not rest.startswith(_ADVICE)):
                return whole
        return cls(words, mark, rest.removeprefix(_ADVICE).replace(_SPACE, " "))

    def to_text(self) -> str:
        """Return the comment as it is written."""
        advice = f"{_ADVICE}{_one_line(self.advice)}" if self.advice else ""
        return _SEPARATOR.join(part for part in (self.words, self.mark, advice) if part)


def _one_line(text: str) -> str:
    return _SPACE.join(text.split())


@dataclass(frozen=True, slots=True)
class Before:
    """What a job's fields held; `comment` None and `nice` 0: that field is as its user left it."""

    comment: str | None = None
    nice: int = 0


class Overwritten(LastLines[Before]):
    """The jobs on which something of ours stands."""

    file_name = OVERWRITTEN_FILE
    durable = True

    def of(self, job_id: str) -> Before:
        """Return what stood on a job; nothing of ours stands there if that is empty."""
        return self.values.get(job_id) or Before()

    def note(self, jobs: Mapping[str, Before]) -> None:
        """Write down what stands on jobs. Raises OSError: nothing may be written over it then."""
        self.write({job_id: None if before == Before() else before for job_id, before in jobs.items()})

    def to_fields(self, key: str, value: Before | None) -> Mapping[str, object]:
        """Return a line as the module shows them."""
        fields: dict[str, object] = {"job_id": key}
        if value is not None and value.comment is not None:
            fields["comment"] = value.comment
        if value is not None and value.nice:
            fields["nice"] = value.nice
        return fields

    def from_fields(self, fields: Mapping[str, Any]) -> tuple[str, Before | None]:
        """Read such a line."""
        comment = fields.get("comment")
        before = Before(None if comment is None else str(comment), int(fields.get("nice", 0)))
        return str(fields["job_id"]), None if before == Before() else before


@dataclass(frozen=True)
class Origin:
    """Where a job belongs and since when it waits, by its mark if it has one (`mark`: its text)."""

    home: str
    submit_time_s: float
    mark: str = ""

    @classmethod
    def of(
        cls, marks: MarkKey, texts: Iterable[str], raw_id: str, partition: str, submit_s: float
    ) -> "Origin":
        """Read the first mark among the texts that stand on the job of this number."""
        mark = next((mark for text in texts if (mark := marks.read(text, raw_id)) is not None), None)
        if mark is None:
            return cls(partition, submit_s)
        return cls(mark.home, float(min(mark.submitted_s, submit_s)), marks.sealed(mark, raw_id))


@dataclass(frozen=True)
class SlurmMemory:
    """The key of its marks, and what it wrote over; by default nothing that was written before is known."""

    marks: MarkKey = field(default_factory=lambda: MarkKey.fresh(""))
    overwritten: Overwritten = field(default_factory=lambda: Overwritten(None))

    @classmethod
    def of(cls, folder: Path, cluster: str) -> "SlurmMemory":
        """Return what a state folder holds; its key is made where there is none.

        Without a key that can be read or kept the way back still has to be open: one of this process's takes
        its place, and marks count no more. Raises OSError when the record cannot be read.
        """
        try:
            marks = make_mark_key(folder / MARK_KEY_FILE, cluster)
        except (LucidError, OSError) as error:
            logger.warning("marks on jobs cannot be told from words of their users: %s", error)
            marks = MarkKey.fresh(cluster)
        return cls(marks, Overwritten(folder))
