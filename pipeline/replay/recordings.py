"""What `lucid simulate` keeps of a run beside its results: plots over time, a timeline, why jobs waited."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zoneinfo import ZoneInfo

import pandas as pd

from foundation.csv_files import write_csv
from foundation.errors import BadInputError
from simulator.cluster.changes import ClusterChange
from simulator.recorder import Recorder, together
from simulator.recorders.timeline import DEFAULT_MAX_SLICES, TimelineRecorder, TimelineWindow, open_timeline
from simulator.recorders.usage import Usage, UsageRecorder
from simulator.recorders.waiting import WaitRecorder, mean_waits
from simulator.recorders.waiting_text import explain_wait, rows_of_job
from simulator.results.result import SimulationResult
from simulator.scenario.companion import OverTime
from simulator.workload.workload import Workload


@dataclass(frozen=True)
class Watching:
    """What is to be watched. `plot`: pictures, of the cluster over time among them.

    `timeline_from` and `timeline_until` cut the timeline, naive times being on the log's clock, and
    `timeline_slices` bounds it. `why` names jobs: their waits are explained.
    """

    plot: bool = False
    timeline: bool = False
    timeline_from: datetime | None = None
    timeline_until: datetime | None = None
    timeline_slices: int = DEFAULT_MAX_SLICES
    waits: bool = False
    why: tuple[str, ...] = ()

    def window(self, origin: pd.Timestamp | None, zone: ZoneInfo) -> TimelineWindow:
        """Return the timeline's window in seconds from `origin`."""

        def seconds(moment: datetime | None, otherwise: float) -> float:
            if moment is None or origin is None:
                return otherwise
            aware = moment if moment.tzinfo else moment.replace(tzinfo=zone)
            return (aware - origin.to_pydatetime()) / timedelta(seconds=1)

        return TimelineWindow(
            seconds(self.timeline_from, 0.0), seconds(self.timeline_until, inf), self.timeline_slices
        )

    def check_jobs(
        self, workload: Workload, logged: "pd.Series[Any]", counted_from_s: float | None = None
    ) -> None:
        """Raise BadInputError for a job to explain that the log does not hold, that is not replayed, or that
        fills the cluster before `counted_from_s` alone.
        """
        replayed = {job.job_id for job in workload.jobs} if self.why else set()
        begins_s = -inf if counted_from_s is None else counted_from_s
        counted = (
            {job.job_id for job in workload.jobs if job.submit_time_s >= begins_s} if self.why else set()
        )
        for job_id in self.why:
            if job_id in counted:
                continue
            if job_id in replayed:
                raise BadInputError(
                    f"Job {job_id!r} was submitted before the days that count: it fills the cluster, and no "
                    "table has it.",
                    remedy="Choose an earlier --start.",
                )
            if (logged.astype(str) == job_id).any():
                raise BadInputError(
                    f"Job {job_id!r} is in the log, and is not replayed.",
                    remedy="See why under `skipped`, and check --start and --end.",
                )
            some = ", ".join(job.job_id for job in workload.jobs[:3])
            raise BadInputError(f"Job {job_id!r} is not in the log.", remedy=f"Its jobs are {some}, ...")


@dataclass
class RunWatch:
    """Watches one policy's run; a context manager, so that files are closed whatever happens.

    After `finish`: `written`, `usage`, `mean_waits_s` by cause, `why` (rows with their sentences), `remarks`.
    """

    policy: str
    watching: Watching
    window: TimelineWindow
    out_dir: Path
    written: list[Path] = field(default_factory=list)
    usage: Usage | None = None
    mean_waits_s: dict[str, float] = field(default_factory=dict)
    why: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    recorder: Recorder | None = None

    def __enter__(self) -> Self:
        """Open what is written while the run goes on."""
        self.out_dir.mkdir(parents=True, exist_ok=True)
        self._files = ExitStack()
        self._usage = UsageRecorder() if self.watching.plot else None
        self._waits = WaitRecorder() if self.watching.waits or self.watching.why else None
        self._timeline = None
        if self.watching.timeline:
            path = self.out_dir / f"timeline_{self.policy}.json.gz"
            self._timeline = TimelineRecorder(self._files.enter_context(open_timeline(path)), self.window)
            self.written.append(path)
        recorders: Sequence[Recorder | None] = (self._usage, self._waits, self._timeline)
        self.recorder = together([each for each in recorders if each is not None])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the files."""
        self._files.close()

    def finish(
        self,
        result: SimulationResult,
        *,
        about: Mapping[str, Any] | None = None,
        changes: Sequence[ClusterChange] = (),
    ) -> None:
        """Write what has been seen, now that the run is over; `about` goes into the timeline."""
        if self._usage is not None:
            self.usage = self._usage.usage().since(result.counted_from_s)
        if self._timeline is not None:
            self._timeline.close(
                {"policy": self.policy, **(about or {})},
                changes,
                [each for each in result.kept.values() if isinstance(each, OverTime)],
            )
            if self._timeline.ended_s is not None:
                self.remarks.append(
                    f"The timeline of {self.policy} ends at {self._timeline.ended_s:,.0f} s, after "
                    f"{self._timeline.slices:,} slices. Choose a part: --timeline-from, --timeline-until."
                )
        if self._waits is not None:
            waits = self._waits.table(result)
            self.mean_waits_s = mean_waits(waits)
            if self.watching.waits:
                path = self.out_dir / f"waits_{self.policy}.csv"
                write_csv(waits, path)
                self.written.append(path)
            for job_id in self.watching.why:
                self.why += [{**row, "sentences": explain_wait(row)} for row in rows_of_job(waits, job_id)]

    def facts(self) -> dict[str, Any]:
        """Return what belongs beside the run's summary."""
        facts: dict[str, Any] = {}
        if self.mean_waits_s:
            facts["mean_waits_s"] = self.mean_waits_s
        if self.watching.why:
            facts["why"] = self.why
        return facts
