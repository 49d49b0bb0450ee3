"""What stood in fields of Slurm's before something was written over it: STATE/overwritten.jsonl.

    {"job_id": "17", "comment": "fine-tuning, second try", "nice": 100}
    {"job_id": "17"}                                                       it stands there again

`job_id` is Slurm's own number of the record. Users may write into a comment whatever they like, also what
looks like ours, so what is to be given back is known from here alone. Written, and on the disk, before Slurm
is told. A line that was cut off is left out; a job's last line counts.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_scheduler.last_lines import LastLines

OVERWRITTEN_FILE = "overwritten.jsonl"
# The file is written anew when it has this many lines more than jobs.
_MOST_STALE_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Before:
    """What a job's fields held; `comment` None and `nice` 0: that field is as its user left it."""

    comment: str | None = None
    nice: int = 0


class Overwritten:
    """The record of one state folder. One process writes at a time, any may read."""

    def __init__(self, folder: Path | None) -> None:
        """Read what is there; without a folder it lasts as long as this object. Raises OSError."""
        path = None if folder is None else folder / OVERWRITTEN_FILE
        self._jobs = LastLines(path, _fields, _read_fields, most_stale=_MOST_STALE_LINES, durable=True)

    def of(self, job_id: str) -> Before:
        """Return what stood on a job; nothing of ours stands there if that is empty."""
        return self._jobs.get(job_id) or Before()

    def refresh(self) -> None:
        """Read the file anew if another process wrote it. Raises OSError when it cannot be read."""
        self._jobs.refresh()

    def note(self, jobs: Mapping[str, Before]) -> None:
        """Write down what stands on jobs. Raises OSError: nothing may be written over it then."""
        self._jobs.note({job_id: None if before == Before() else before for job_id, before in jobs.items()})

    def cross_off(self, job_ids: Iterable[str]) -> None:
        """Write down that nothing of ours stands on these jobs any more. Raises OSError."""
        self.note({job_id: Before() for job_id in job_ids})

    def keep(self, alive: Collection[str]) -> None:
        """Leave jobs out that are gone: their numbers may be given again."""
        with suppress(OSError):  # it is long, and otherwise as good
            self._jobs.keep(alive)


def _fields(job_id: str, before: Before | None) -> Mapping[str, object]:
    fields: dict[str, object] = {"job_id": job_id}
    if before is not None and before.comment is not None:
        fields["comment"] = before.comment
    if before is not None and before.nice:
        fields["nice"] = before.nice
    return fields


def _read_fields(fields: Mapping[str, Any]) -> tuple[str, Before | None]:
    comment = fields.get("comment")
    before = Before(None if comment is None else str(comment), int(fields.get("nice", 0)))
    return str(fields["job_id"]), None if before == Before() else before
