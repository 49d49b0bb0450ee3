"""Which jobs this product has touched, and how: written before the cluster is asked for anything.

    STATE/touched.jsonl    {"job_id": "17", "how": ["ordered"], "priority": 4294901758, "given": [4294946108]}
                           {"job_id": "17", "how": ["advised", "ordered"], "priority": 4294901758, ...}
                           {"job_id": "17", "how": ["returned"], "priority": 4294901758, ...}
                           {"job_id": "17", "how": []}

The way back reads it, also after a `kill -9` of the daemon at any point: a job that was to be touched and was
not is returned for nothing, a job that was touched is never forgotten. What was written is kept as well: what
stands there and is neither that nor the cluster's own, another hand wrote (`operators_word.py`). A job's last
line counts. The file is appended to; a line that was cut off is left out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from live_scheduler.adapter import (
    Advise,
    Change,
    PriorityRange,
    RestrictToNode,
    ReturnToDefault,
    SendHome,
    SetPriority,
    StartAfter,
)
from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.memory.records import LastLines

TOUCHED_FILE = "touched.jsonl"
# A cluster that writes back what its cycle began with (`WriteBack`) may bring any of these back.
_MOST_GIVEN = 16


class Way(StrEnum):
    """How a job was touched."""

    ORDERED = "ordered"  # its priority or its partition
    ADVISED = "advised"  # a text beside it
    DELAYED = "delayed"  # it may not start before some moment
    RESTRICTED = "restricted"  # it may start on one node only
    RETURNED = "returned"  # not any more; its cluster may still write our priority back


@dataclass(frozen=True, slots=True)
class Begin:
    """The begin time (Unix s) that a job was given from here: as it is to be, or (`seen`) as it stood.

    `before_s` is the one before; `restarts`: how often the job had been requeued, which delays it too.
    """

    at_s: float
    seen: bool = False
    before_s: float | None = None
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Touch:
    """How a job was touched, and what was written.

    `priority` is what the cluster had given it before (None: unknown), `nice` its nice value then. `given`
    are the priorities that this product gave it, the last one last, `begin` the last begin time, `node` the
    one that it was to start on ("": any).
    """

    how: frozenset[Way] = frozenset()
    priority: int | None = None
    given: tuple[int, ...] = ()
    nice: int = 0
    begin: Begin | None = None
    node: str = ""


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
            if way is None:
                continue
            recorded = fresh.get(change.job_id) or self.of(change.job_id)
            touch = replace(recorded, how=(recorded.how - {Way.RETURNED}) | {way})
            job = state.by_id.get(change.job_id)
            if way is Way.ORDERED and job is not None:
                touch = _with_before(touch, recorded, job, allowed)
            fresh[change.job_id] = _with_written(touch, change, job, state.at_s)
        self.write(fresh)

    def begins(self, seen: Mapping[str, float]) -> None:
        """Write down the begin times (Unix s) that jobs were seen to have got from here. Raises OSError."""
        begun = {job_id: (touch, touch.begin) for job_id in seen if (touch := self.of(job_id)).begin}
        self.write(
            {
                job_id: replace(touch, begin=replace(begin, at_s=seen[job_id], seen=True))
                for job_id, (touch, begin) in begun.items()
                if begin is not None
            }
        )

    def adopt(self, job_ids: Iterable[str]) -> None:
        """Write down that these jobs were ordered, by whatever process. Raises OSError."""
        self.refresh()
        recorded = {job_id: self.of(job_id) for job_id in job_ids}
        self.write(
            {
                job_id: replace(touch, how=touch.how | {Way.ORDERED})
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
                job_id: replace(touch, how=frozenset({Way.RETURNED}))
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
        if value is not None:
            written = {
                "priority": value.priority,
                "given": value.given,
                "nice": value.nice,
                "begin": None if value.begin is None else asdict(value.begin),
                "node": value.node,
            }
            fields |= {name: each for name, each in written.items() if each not in (None, (), 0, "")}
        return fields

    def from_fields(self, fields: Mapping[str, Any]) -> tuple[str, Touch | None]:
        """Read such a line."""
        priority, begin = fields.get("priority"), fields.get("begin")
        touch = Touch(
            frozenset(Way(way) for way in fields["how"]),
            None if priority is None else int(priority),
            tuple(int(given) for given in fields.get("given", ())),
            int(fields.get("nice", 0)),
            None if begin is None else Begin(**begin),
            str(fields.get("node", "")),
        )
        return str(fields["job_id"]), touch if touch.how else None


def _with_before(touch: Touch, recorded: Touch, job: LiveJob, allowed: PriorityRange) -> Touch:
    """Return the touch with what the cluster had given the job, where what stands there is the cluster's."""
    own = job.priority if job.priority and not allowed.ours(job.priority) else None
    if own is None:
        # Written back by the cluster: what it had before is known already. Else it is not known.
        known = recorded.how & {Way.ORDERED, Way.RETURNED}
        return touch if known else replace(touch, priority=None)
    if own in recorded.given:
        return touch
    return replace(touch, priority=own, nice=job.nice)


def _with_written(touch: Touch, change: Change, job: LiveJob | None, at_s: float) -> Touch:
    """Return the touch with what the change writes."""
    match change:
        case SetPriority(priority=int(priority)) | SendHome(priority=int(priority)):
            return replace(touch, given=(*touch.given, priority)[-_MOST_GIVEN:])
        case StartAfter(delay_s=delay_s) if job is not None:
            begin = Begin(at_s + delay_s, before_s=job.begin_time_s, restarts=job.restarts)
            return replace(touch, begin=begin)
        case RestrictToNode(node=str(node)):
            return replace(touch, node=node)
    return touch


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
