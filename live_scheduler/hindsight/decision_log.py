"""What was decided, and what was believed when: one line of JSON for each pass that decided something new.

    {"at_s": ..., "release": "...", "version": 3, "policy": "lucid", "mode": "control", "queued": 41,
     "new": [[job id, submitted at, virtual cluster, GPUs, P50 s, pool, place], ...],
     "chosen": [job id, ...], "started": [job id, ...]}

A job is written down when it is ranked for the first time (`new`), when the policy would first start it
(`chosen`) and when it really started (`started`), never at the passes in between: a standing queue of
thousands writes nothing. A task of an array is written down when it starts, with what was believed of the
array.
The file is only appended to; when it has grown large it becomes `decisions.1.jsonl` and a new one begins. A
line that a crash cut off is left out when it is read.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_scheduler.cluster_state import LiveJob
from live_scheduler.live_view import LiveView
from live_scheduler.memory.records import append_rotated, read_rotated

DECISIONS_FILE = "decisions.jsonl"
ROTATE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FirstSight:
    """A job as it was ranked for the first time: what was believed of it, by which release, and its place.

    Times are Unix seconds. `estimated_duration_s` is the release's P50 (None: the policy needs none).
    """

    job_id: str
    submit_time_s: float
    virtual_cluster: str
    gpus: int
    estimated_duration_s: float | None
    pool: str
    place: int
    at_s: float
    release: str
    release_version: int | None
    policy: str
    mode: str


@dataclass(frozen=True, slots=True)
class DecisionLine:
    """One line: what a pass decided that no pass before had."""

    at_s: float
    release: str
    release_version: int | None
    policy: str
    mode: str
    queued: int
    new: tuple[FirstSight, ...]
    chosen: tuple[str, ...]
    started: tuple[str, ...]


class DecisionLog:
    """Writes what each pass decided that was new. One process writes a file."""

    def __init__(self, path: Path, *, rotate_bytes: int = ROTATE_BYTES) -> None:
        """Take up where an earlier process stopped: jobs that it wrote down are not written down again."""
        self.path = path
        self._rotate_bytes = rotate_bytes
        self._told: dict[str, FirstSight] = {}
        self._arrays: dict[tuple[object, ...], list[Any]] = {}  # what its tasks share -> what was written
        self._chosen: set[str] = set()
        self._started: set[str] = set()
        for line in read_lines(path):
            self._told.update((job.job_id, job) for job in line.new)
            self._chosen.update(line.chosen)
            self._started.update(line.started)

    def passed(self, view: LiveView) -> None:
        """Write a line if the pass decided something new. Raises OSError."""
        cluster, decision = view.cluster, view.decision
        if cluster is None:
            return
        jobs = cluster.by_id
        self._forget(jobs)
        new: list[list[Any]] = []
        newly_chosen: list[str] = []
        started: list[str] = []
        for job in cluster.jobs:
            if not job.waiting and job.job_id not in self._started:
                array = self._arrays.get(_shared(job))
                if array is not None and job.job_id not in self._told:
                    new.append([job.job_id, *array[1:]])
                    if array[0] in self._chosen:
                        newly_chosen.append(job.job_id)
                if array is not None or job.job_id in self._told:
                    started.append(job.job_id)
        for place in decision.ranked if decision is not None else ():
            job_id = place.job_id
            job = jobs[job_id]
            logged = self._told.get(job_id)
            if (
                logged is None or logged.submit_time_s != job.submit_time_s
            ):  # another submission is another run of it
                belief = None if place.estimated_duration_s is None else float(place.estimated_duration_s)
                row = [job_id, job.submit_time_s, job.virtual_cluster, job.gpus]
                row += [None if belief is None else round(belief, 3), place.pool, place.place]
                new.append(row)
                if job.tasks > 1:
                    self._arrays[_shared(job)] = row
            if place.starts_now and job_id not in self._chosen:
                newly_chosen.append(job_id)
        if not (new or newly_chosen or started):
            return
        fields: dict[str, Any] = {
            "at_s": view.at_s,
            "release": decision.release if decision is not None else "",
            "version": decision.release_version if decision is not None else None,
            "policy": decision.policy if decision is not None else "",
            "mode": str(view.settings.mode),
            "queued": len(decision.ranked) if decision is not None else 0,
            "new": new,
            "chosen": newly_chosen,
            "started": started,
        }
        text = json.dumps(fields, separators=(",", ":"), allow_nan=False)
        append_rotated(self.path, [text], self._rotate_bytes, for_good=False)
        about = (fields["release"], fields["version"], fields["policy"], fields["mode"])
        self._told.update((row[0], _first_sight(row, view.at_s, about)) for row in new)
        self._chosen.update(newly_chosen)
        self._started.update(started)

    def first_sight(self, job_id: str) -> FirstSight | None:
        """Return what was believed of a job that waits or runs when it was first ranked; None: never was."""
        return self._told.get(job_id)

    def _forget(self, jobs: Mapping[str, LiveJob]) -> None:
        """Keep what is known of the jobs that are there: ids come again, and a requeued job waits again."""
        for job_id in [job_id for job_id in self._told if job_id not in jobs]:
            del self._told[job_id]
        if self._arrays:
            there = {_shared(job) for job in jobs.values()}
            self._arrays = {shared: row for shared, row in self._arrays.items() if shared in there}
        self._chosen &= jobs.keys()
        self._started = {job_id for job_id in self._started & jobs.keys() if not jobs[job_id].waiting}


def _shared(job: LiveJob) -> tuple[object, ...]:
    """What an array and its tasks have in common; their ids differ."""
    return job.submit_time_s, job.user, job.name, job.gpus, job.virtual_cluster


def read_lines(path: Path, since_s: float = -math.inf) -> Iterator[DecisionLine]:
    """Iterate over what was decided at or after `since_s`, in order; what cannot be read is left out."""
    return read_rotated(path, _line, since_s)


def estimates_at_submission(path: Path) -> dict[tuple[str, float], FirstSight]:
    """What was believed of each job when it was first ranked, by (job id, submission in Unix seconds)."""
    sights: dict[tuple[str, float], FirstSight] = {}
    for line in read_lines(path):
        for job in line.new:
            sights.setdefault((job.job_id, job.submit_time_s), job)
    return sights


def _line(text: str) -> DecisionLine:
    fields = json.loads(text)
    at_s, version = float(fields["at_s"]), fields["version"]
    if not math.isfinite(at_s):
        raise ValueError("no time")
    about = (
        str(fields["release"]),
        None if version is None else int(version),
        str(fields["policy"]),
        str(fields["mode"]),
    )
    new = tuple(_first_sight(row, at_s, about) for row in fields["new"])
    chosen_ids, started = (tuple(map(str, fields[name])) for name in ("chosen", "started"))
    return DecisionLine(at_s, *about, int(fields["queued"]), new, chosen_ids, started)


def _first_sight(row: list[Any], at_s: float, about: tuple[str, int | None, str, str]) -> FirstSight:
    job_id, submit_s, virtual_cluster, gpus, belief, pool, place = row
    return FirstSight(
        str(job_id),
        float(submit_s),
        str(virtual_cluster),
        int(gpus),
        None if belief is None else float(belief),
        str(pool),
        int(place),
        at_s,
        *about,
    )
