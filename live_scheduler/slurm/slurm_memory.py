"""What the live scheduler knows of its own writing on Slurm's jobs: its key, and what it wrote over."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cluster_logs.mark_key import MARK_KEY_FILE, make_mark_key
from cluster_logs.slurm_mark import MarkKey
from foundation.errors import LucidError
from live_scheduler.slurm.overwritten import Overwritten

logger = logging.getLogger("lucid.live")


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
    """By default of this object alone: nothing that was written before is known."""

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
