"""What stood in fields of Slurm's before something was written over it: STATE/overwritten.jsonl.

    {"job_id": "17", "comment": "fine-tuning, second try", "nice": 100}
    {"job_id": "17"}                                                       it stands there again

`job_id` is Slurm's own number of the record. Users may write into a comment whatever they like, also what
looks like ours, so what is to be given back is known from here alone. Written, and on the disk, before Slurm
is told. A line that was cut off is left out; a job's last line counts.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from foundation.replaced_files import replace_file
from live_scheduler.append_only import append_lines

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
        self._path = None if folder is None else folder / OVERWRITTEN_FILE
        self._jobs: dict[str, Before] = {}
        self._lines = self._size = 0
        self.refresh()

    def of(self, job_id: str) -> Before:
        """Return what stood on a job; nothing of ours stands there if that is empty."""
        return self._jobs.get(job_id, Before())

    def refresh(self) -> None:
        """Read the file anew if another process wrote it. Raises OSError when it cannot be read."""
        if self._path is None:
            return
        try:
            if self._path.stat().st_size == self._size:
                return
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = b""
        self._jobs, self._lines, self._size = {}, 0, len(content)
        for line in content.decode(errors="replace").splitlines():
            self._lines += 1
            with suppress(ValueError, KeyError, TypeError):
                self._take(*_read_line(line))

    def note(self, jobs: Mapping[str, Before]) -> None:
        """Write down what stands on jobs. Raises OSError: nothing may be written over it then."""
        self.refresh()
        fresh = {job_id: before for job_id, before in jobs.items() if self.of(job_id) != before}
        if not fresh:
            return
        if self._path is not None:
            self._size = append_lines(self._path, [_line(*each) for each in fresh.items()])
        self._lines += len(fresh)
        for job_id, before in fresh.items():
            self._take(job_id, before)

    def cross_off(self, job_ids: Iterable[str]) -> None:
        """Write down that nothing of ours stands on these jobs any more. Raises OSError."""
        self.note({job_id: Before() for job_id in job_ids})

    def keep(self, alive: Collection[str]) -> None:
        """Leave jobs out that are gone: their numbers may be given again."""
        self._jobs = {job_id: before for job_id, before in self._jobs.items() if job_id in alive}
        if self._path is not None and self._lines > len(self._jobs) + _MOST_STALE_LINES:
            with suppress(OSError):  # it is long, and otherwise as good
                self._rewrite(self._path)

    def _rewrite(self, path: Path) -> None:
        replace_file(path, (_line(*each) + "\n" for each in self._jobs.items()), durable=True)
        self._lines, self._size = len(self._jobs), path.stat().st_size

    def _take(self, job_id: str, before: Before) -> None:
        if before == Before():
            self._jobs.pop(job_id, None)
        else:
            self._jobs[job_id] = before


def _line(job_id: str, before: Before) -> str:
    fields: dict[str, object] = {"job_id": job_id}
    if before.comment is not None:
        fields["comment"] = before.comment
    if before.nice:
        fields["nice"] = before.nice
    return json.dumps(fields)


def _read_line(line: str) -> tuple[str, Before]:
    fields = json.loads(line)
    comment = fields.get("comment")
    return str(fields["job_id"]), Before(
        None if comment is None else str(comment), int(fields.get("nice", 0))
    )
