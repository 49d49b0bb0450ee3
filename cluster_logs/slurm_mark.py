"""What the live scheduler writes on a job that it profiles: in Slurm's Comment, after its user's own words.

    lucid:home=vc2,submitted=1700000000,stage=profiling

A requeue sets a job's submission anew and a move changes its partition, so both are kept here. Accounting
(with AccountingStoreFlags=job_comment) takes the comment over when a run ends, as it is then: each run of a
job has its own.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

_PREFIX = "lucid:"
_MARK = re.compile(rf"(?:^|\s){_PREFIX}(\S+)")


class Stage(StrEnum):
    """Where a marked job is."""

    PROFILING = "profiling"  # it waits for, or makes, its short run on the profiling partition
    HOME = "home"  # it waits, runs or has run where it belongs


@dataclass(frozen=True, slots=True)
class SlurmMark:
    """Where a job belongs, when its user submitted it (Unix seconds), and where it is."""

    home: str
    submitted_s: int
    stage: Stage

    def written_beside(self, comment: str = "") -> str:
        """Return a comment with this mark, in place of an older one."""
        return " ".join([*without_mark(comment).split(), self.to_text()])

    def to_text(self) -> str:
        """Return the mark as it is written."""
        return f"{_PREFIX}home={self.home},submitted={self.submitted_s},stage={self.stage}"


def read_mark(comment: str | None) -> SlurmMark | None:
    """Return the mark in a comment; None without one, or for one that cannot be read."""
    found = _MARK.search(comment or "")
    if found is None:
        return None
    parts = dict(part.partition("=")[::2] for part in found.group(1).split(","))
    try:
        mark = SlurmMark(parts["home"], int(parts["submitted"]), Stage(parts["stage"]))
    except (KeyError, ValueError):
        return None
    return mark if mark.home and mark.submitted_s > 0 else None


def without_mark(comment: str) -> str:
    """Return a comment without the mark."""
    return " ".join(_MARK.sub(" ", comment).split())
