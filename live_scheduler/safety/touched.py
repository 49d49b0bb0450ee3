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
from typing import Any

from live_scheduler.adapter import Advise, Change, PriorityRange, RestrictToNode, ReturnToDefault, StartAfter
from live_scheduler.cluster_state import ClusterState
from live_scheduler.last_lines import LastLines

TOUCHED_FILE = "touched.jsonl"


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


class TouchedJobs(LastLines[Touch]):
    """The touched jobs, in the order of their first touch."""

    file_name = TOUCHED_FILE

    def of(self, job_id: str) -> Touch:
        """Return how a job was touched; an empty Touch: not at all."""
        return self.values.get(job_id) or Touch()

    def that_are(self, way: Way) -> list[str]:
        """Return the jobs that were touched in this way."""
        return [job_id for job_id, touch in self.values.items() if way in touch.how]

    def beyond_advice(self) -> bool:
        """Return whether any job was touched otherwise than by a text beside it."""
        return any(touch.how - {Way.ADVISED} for touch in self.values.values())

    def note(self, changes: Sequence[Change], state: ClusterState, allowed: PriorityRange) -> None:
        """Write down, before they are asked for, the changes to jobs of `state`. Raises OSError.

        `allowed` are the priorities that this product gives: they are not taken for the cluster's own.
        """
        self.refresh()
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
        self.write(fresh)

    def adopt(self, job_ids: Iterable[str]) -> None:
        """Write down that these jobs were ordered, whoever did it. Raises OSError."""
        self.refresh()
        recorded = {job_id: self.of(job_id) for job_id in job_ids}
        self.write(
            {
                job_id: Touch(touch.how | {Way.ORDERED}, touch.priority)
                for job_id, touch in recorded.items()
                if Way.ORDERED not in touch.how
            }
        )

    def returned(self, job_ids: Iterable[str]) -> None:
        """Write down that these jobs have their own priorities again. Raises OSError."""
        self.refresh()
        recorded = {job_id: self.of(job_id) for job_id in job_ids if job_id in self}
        self.write(
            {
                job_id: Touch(frozenset({Way.RETURNED}), touch.priority)
                for job_id, touch in recorded.items()
                if touch.how != {Way.RETURNED}
            }
        )

    def forget_ended(self, alive: Collection[str]) -> None:
        """Write the file anew without jobs that are gone, once there are many. Raises OSError."""
        if len(self) > len(alive) + self.most_stale_lines or self.is_stale:
            self.keep(alive)

    def to_fields(self, key: str, value: Touch | None) -> Mapping[str, object]:
        """Return a line as the module shows them."""
        fields: dict[str, object] = {"job_id": key, "how": sorted(value.how) if value else []}
        if value is not None and value.priority is not None:
            fields["priority"] = value.priority
        return fields

    def from_fields(self, fields: Mapping[str, Any]) -> tuple[str, Touch | None]:
        """Read such a line."""
        priority = fields.get("priority")
        how = frozenset(Way(way) for way in fields["how"])
        touch = Touch(how, None if priority is None else int(priority))
        return str(fields["job_id"]), touch if how else None


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
