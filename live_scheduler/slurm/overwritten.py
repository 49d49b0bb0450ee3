"""What stood in fields of Slurm's before something was written over it: STATE/overwritten.jsonl.

    {"job_id": "17", "comment": "fine-tuning, second try", "nice": 100}
    {"job_id": "17"}                                                       it stands there again

`job_id` is Slurm's own number of the record. Users may write into a comment whatever they like, also what
looks like ours, so what is to be given back is known from here alone. Written, and on the disk, before Slurm
is told. A line that was cut off is left out; a job's last line counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from live_scheduler.last_lines import LastLines

OVERWRITTEN_FILE = "overwritten.jsonl"


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
