"""A cluster in a JSON file, whose rows of jobs have an id, gpus, submitted, started and a priority.

    {"gpus": 8, "jobs": [{"id": "1", "gpus": 4, "submitted": 0, "started": null, "priority": 0}]}

The whole of the adapter that CONTRIBUTING.md walks through.
"""

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foundation.parts import Part
from live_scheduler import (
    AdapterKind,
    Change,
    ClusterState,
    EndedJob,
    LiveJob,
    LiveNode,
    LiveSettings,
    OpenedCluster,
    PriorityRange,
    Refusal,
    ReturnToDefault,
    SetPriority,
)


class JobsFile:
    """One queue before one node; priorities in the file order the queue, and 0 is the file's own."""

    name = "jobs_file"
    priorities = PriorityRange(1, 1_000_000, exclusive=True)

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> ClusterState:
        """Return the file as it is now."""
        document = self._document()
        jobs = tuple(
            LiveJob(
                job_id=row["id"],
                partition="queue",
                virtual_cluster="queue",
                gpus=row["gpus"],
                submit_time_s=row["submitted"],
                start_time_s=row["started"],
                priority=row["priority"],
            )
            for row in document["jobs"]
        )
        used = sum(job.gpus for job in jobs if not job.waiting)
        return ClusterState(time.time(), jobs, (LiveNode("node", document["gpus"], used, True, ("queue",)),))

    def ended(self, job_ids: Collection[str], since_s: float) -> list[EndedJob]:
        """A job that is gone left nothing behind."""
        return []

    def ended_since(self, since_s: float) -> list[EndedJob]:
        """Likewise."""
        return []

    def apply(self, changes: Sequence[Change]) -> list[Refusal]:
        """Write priorities into the file; refuse all else."""
        document, refused = self._document(), []
        rows = {row["id"]: row for row in document["jobs"]}
        for change in changes:
            if change.job_id in rows and isinstance(change, SetPriority | ReturnToDefault):
                by_hand = isinstance(change, ReturnToDefault) and change.by_hand
                if not by_hand:  # a number that an operator set stands
                    given = change.priority if isinstance(change, SetPriority) else 0
                    rows[change.job_id]["priority"] = given
            else:
                refused.append(Refusal(change, "only priorities of jobs in the file can be changed"))
        self._path.write_text(json.dumps(document))
        return refused

    def own_priorities(self, jobs: Sequence[LiveJob]) -> dict[str, bool]:
        """A job has 0 until it is given another."""
        return {job.job_id: job.priority == 0 for job in jobs}

    def write_backs(self) -> None:
        """What is set stays."""

    def _document(self) -> dict[str, Any]:
        return dict(json.loads(self._path.read_text()))


@dataclass(frozen=True)
class JobsFileSettings:
    """The table `[jobs_file]` of the settings."""

    path: str = "jobs.json"


class JobsFileKind(AdapterKind):
    """How such a cluster is opened."""

    Settings = JobsFileSettings

    def open(self, settings: LiveSettings, folder: Path) -> OpenedCluster:
        """Return the cluster of the settings."""
        return OpenedCluster(JobsFile(Path(self.own_settings(settings).path)))


PART = Part("jobs_file", "Clusters that are a JSON file", adapters={"jobs_file": "jobs_file:JobsFileKind"})
