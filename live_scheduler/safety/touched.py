"""Which jobs this product has touched, and how: written before the cluster is asked for anything.

    STATE/touched.jsonl    {"job_id": "17", "how": ["ordered"], "priority": 4294901758}
                           {"job_id": "17", "how": ["ordered", "advised"], "priority": 4294901758}
                           {"job_id": "17", "how": ["returned"], "priority": 4294901758}
                           {"job_id": "17", "how": []}

The way back reads it, also after a `kill -9` of the daemon at any point: a job that was to be touched and was
not is returned for nothing, a job that was touched is never forgotten. A job's last line counts. The file is
appended to; a line that was cut off is left out.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from foundation.replaced_files import replace_file
from live_scheduler.adapter import Advise, Change, PriorityRange, RestrictToNode, ReturnToDefault, StartAfter
from live_scheduler.append_only import append_lines
from live_scheduler.cluster_state import ClusterState

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
        self.path = folder / TOUCHED_FILE
        self._jobs: dict[str, Touch] = {}
        self._lines = 0
        self._size = 0
        self.reload()

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def of(self, job_id: str) -> Touch:
        """Return how a job was touched; an empty Touch: not at all."""
        return self._jobs.get(job_id, Touch())

    def ids(self) -> list[str]:
        """Return the jobs, in the order of their first touch."""
        return list(self._jobs)

    def that_are(self, way: Way) -> list[str]:
        """Return the jobs that were touched in this way."""
        return [job_id for job_id, touch in self._jobs.items() if way in touch.how]

    def beyond_advice(self) -> bool:
        """Return whether any job was touched otherwise than by a text beside it."""
        return any(touch.how - {Way.ADVISED} for touch in self._jobs.values())

    def reload(self) -> None:
        """Read the file anew; raises OSError when it is there and cannot be read."""
        self._jobs, self._lines, self._size = {}, 0, 0
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        self._size = len(content)
        for line in content.decode(errors="replace").splitlines():
            self._lines += 1
            with suppress(ValueError, KeyError, TypeError):
                self._take(*_read_line(line))

    def note(self, changes: Sequence[Change], state: ClusterState, allowed: PriorityRange) -> None:
        """Write down, before they are asked for, the changes to jobs of `state`. Raises OSError.

        `allowed` are the priorities that this product gives: they are not taken for the cluster's own.
        """
        self._look_again()
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
        self._write(fresh)

    def adopt(self, job_ids: Iterable[str]) -> None:
        """Write down that these jobs were ordered, whoever did it. Raises OSError."""
        self._look_again()
        recorded = {job_id: self.of(job_id) for job_id in job_ids}
        self._write(
            {
                job_id: Touch(touch.how | {Way.ORDERED}, touch.priority)
                for job_id, touch in recorded.items()
                if Way.ORDERED not in touch.how
            }
        )

    def returned(self, job_ids: Iterable[str]) -> None:
        """Write down that these jobs have their own priorities again. Raises OSError."""
        self._look_again()
        recorded = {job_id: self.of(job_id) for job_id in job_ids if job_id in self._jobs}
        self._write(
            {
                job_id: Touch(frozenset({Way.RETURNED}), touch.priority)
                for job_id, touch in recorded.items()
                if touch.how != {Way.RETURNED}
            }
        )

    def cross_off(self, job_ids: Iterable[str]) -> None:
        """Write down that these jobs are as the cluster would have them. Raises OSError."""
        self._look_again()
        self._write({job_id: Touch() for job_id in job_ids if job_id in self._jobs})

    def forget_ended(self, alive: Collection[str]) -> None:
        """Write the file anew without jobs that are gone, once there are many. Raises OSError."""
        if self._lines < 2 * len(alive) + _MOST_STALE_LINES:
            return
        kept = {job_id: touch for job_id, touch in self._jobs.items() if job_id in alive}
        replace_file(self.path, (_line(job_id, touch) + "\n" for job_id, touch in kept.items()))
        self.reload()

    def _look_again(self) -> None:
        """Read the file anew when another process wrote it: this one hung, and was stood in for."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size != self._size:
            self.reload()

    def _write(self, touches: Mapping[str, Touch]) -> None:
        if not touches:
            return
        lines = [_line(job_id, touch) for job_id, touch in touches.items()]
        self._size = append_lines(self.path, lines, for_good=False)
        self._lines += len(touches)
        for job_id, touch in touches.items():
            self._take(job_id, touch)

    def _take(self, job_id: str, touch: Touch) -> None:
        if touch.how:
            self._jobs[job_id] = touch
        else:
            self._jobs.pop(job_id, None)


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


def _line(job_id: str, touch: Touch) -> str:
    fields: dict[str, object] = {"job_id": job_id, "how": sorted(touch.how)}
    if touch.priority is not None:
        fields["priority"] = touch.priority
    return json.dumps(fields)


def _read_line(line: str) -> tuple[str, Touch]:
    fields = json.loads(line)
    priority = fields.get("priority") if isinstance(fields, dict) else None
    how = frozenset(Way(way) for way in fields["how"])
    return str(fields["job_id"]), Touch(how, None if priority is None else int(priority))
