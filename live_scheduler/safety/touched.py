"""Which jobs this product has touched, and how: written before the cluster is asked for anything.

    STATE/touched.jsonl    {"job_id": "17", "how": ["ordered"], "priority": 4294901758}
                           {"job_id": "17", "how": ["ordered", "advised"], "priority": 4294901758}
                           {"job_id": "17", "how": ["returned"], "priority": 4294901758}
                           {"job_id": "17", "how": []}

The way back reads it, also after a `kill -9` of the daemon at any point: a job that was to be touched and was
not is returned for nothing, a job that was touched is never forgotten. A job's last line counts. The file is
appended to; a line that was cut off is left out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from live_scheduler.adapter import Advise, Change, PriorityRange, RestrictToNode, ReturnToDefault, StartAfter
from live_scheduler.cluster_state import ClusterState
from live_scheduler.last_lines import LastLines

TOUCHED_FILE = "touched.jsonl"
# The file is written anew, without jobs that are gone, once it has this many lines too many.
_MOST_STALE_LINES = 20_000


class Way(StrEnum):
    """How a job was touched."""

    ORDERED = "ordered"  # its priority or its partition
    ADVISED = "advised"  # a text beside it
    DELAYED = "delayed"  # it may not start before some moment
    RESTRICTED = "restricted"  # it may start on one node only
    RETURNED = "returned"  # not any more; its cluster may still write our priority back


@dataclass(frozen=True, slots=True)
class Touch:
    """How a job was touched; `priority` is what the cluster had given it before (None: unknown)."""

    how: frozenset[Way] = frozenset()
    priority: int | None = None


class TouchedJobs:
    """The record of one state folder. One process writes at a time, any may read."""

    def __init__(self, folder: Path) -> None:
        """Read what is there (nothing without the file). Raises OSError."""
        self._jobs = LastLines(folder / TOUCHED_FILE, _fields, _read_fields, most_stale=_MOST_STALE_LINES)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def of(self, job_id: str) -> Touch:
        """Return how a job was touched; an empty Touch: not at all."""
        return self._jobs.get(job_id) or Touch()

    def ids(self) -> list[str]:
        """Return the jobs, in the order of their first touch."""
        return list(self._jobs)

    def that_are(self, way: Way) -> list[str]:
        """Return the jobs that were touched in this way."""
        return [job_id for job_id, touch in self._jobs.values.items() if way in touch.how]

    def beyond_advice(self) -> bool:
        """Return whether any job was touched otherwise than by a text beside it."""
        return any(touch.how - {Way.ADVISED} for touch in self._jobs.values.values())

    def reload(self) -> None:
        """Read the file anew; raises OSError when it is there and cannot be read."""
        self._jobs.reload()

    def note(self, changes: Sequence[Change], state: ClusterState, allowed: PriorityRange) -> None:
        """Write down, before they are asked for, the changes to jobs of `state`. Raises OSError.

        `allowed` are the priorities that this product gives: they are not taken for the cluster's own.
        """
        self._jobs.refresh()
        fresh: dict[str, Touch] = {}
        for change in changes:
            way = _way(change)
            recorded = fresh.get(change.job_id) or self.of(change.job_id)
            if way is None or way in recorded.how:
                continue
            priority = recorded.priority
            job = state.by_id.get(change.job_id) if way is Way.ORDERED else None
            if job is not None and Way.RETURNED in recorded.how and allowed.ours(job.priority):
                pass  # written back: what it had before is known already
            elif job is not None:
                priority = None if allowed.ours(job.priority) or not job.priority else job.priority
            fresh[change.job_id] = Touch((recorded.how - {Way.RETURNED}) | {way}, priority)
        self._jobs.note(fresh)

    def adopt(self, job_ids: Iterable[str]) -> None:
        """Write down that these jobs were ordered, whoever did it. Raises OSError."""
        self._jobs.refresh()
        recorded = {job_id: self.of(job_id) for job_id in job_ids}
        self._jobs.note(
            {
                job_id: Touch(touch.how | {Way.ORDERED}, touch.priority)
                for job_id, touch in recorded.items()
                if Way.ORDERED not in touch.how
            }
        )

    def returned(self, job_ids: Iterable[str]) -> None:
        """Write down that these jobs have their own priorities again. Raises OSError."""
        self._jobs.refresh()
        recorded = {job_id: self.of(job_id) for job_id in job_ids if job_id in self._jobs}
        self._jobs.note(
            {
                job_id: Touch(frozenset({Way.RETURNED}), touch.priority)
                for job_id, touch in recorded.items()
                if touch.how != {Way.RETURNED}
            }
        )

    def cross_off(self, job_ids: Iterable[str]) -> None:
        """Write down that these jobs are as the cluster would have them. Raises OSError."""
        self._jobs.refresh()
        self._jobs.note(dict.fromkeys(job_ids))

    def forget_ended(self, alive: Collection[str]) -> None:
        """Write the file anew without jobs that are gone, once there are many. Raises OSError."""
        if len(self._jobs) > len(alive) + _MOST_STALE_LINES or self._jobs.is_stale:
            self._jobs.keep(alive)


def _way(change: Change) -> Way | None:
    """Return how a change touches its job; None for what takes a touch back."""
    if isinstance(change, ReturnToDefault):
        return None
    if isinstance(change, Advise):
        return Way.ADVISED if change.text else None
    if isinstance(change, StartAfter):
        return Way.DELAYED if change.delay_s > 0 else None
    if isinstance(change, RestrictToNode):
        return Way.RESTRICTED if change.node is not None else None
    return Way.ORDERED


def _fields(job_id: str, touch: Touch | None) -> Mapping[str, object]:
    fields: dict[str, object] = {"job_id": job_id, "how": sorted(touch.how) if touch else []}
    if touch is not None and touch.priority is not None:
        fields["priority"] = touch.priority
    return fields


def _read_fields(fields: Mapping[str, Any]) -> tuple[str, Touch | None]:
    priority = fields.get("priority")
    how = frozenset(Way(way) for way in fields["how"])
    return str(fields["job_id"]), Touch(how, None if priority is None else int(priority)) if how else None
