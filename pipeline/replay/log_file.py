"""Which jobs of which log are replayed."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs.ingest import read_jobs_file
from cluster_logs.lake import Lake
from cluster_logs.log_span import busy_days, submission_span
from cluster_logs.readers.base import load_reader
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from foundation.site import Site
from pipeline.replay.warm_up import WarmJobs, check_warm_up_days, warm_jobs, warm_up_start
from simulator.workload.job_columns import READ_COLUMNS, READ_IF_KNOWN

TICK = timedelta(microseconds=1)  # a job table's resolution: `end` is included


@dataclass(frozen=True)
class LogFile:
    """A log in one of the formats, and the part of it that counts.

    `start` and `end` keep the jobs submitted between them, both included; naive times are on the log's own
    clock, which is that of `time_zone` where the format does not say. The jobs of `warm_up_days` before
    `start` fill the cluster (`pipeline.replay.warm_up`); 0: it starts empty.
    """

    path: str
    source_format: str
    start: datetime | None = None
    end: datetime | None = None
    time_zone: str | None = None
    warm_up_days: float = 0.0

    @property
    def zone(self) -> ZoneInfo:
        """The log's clock. Raises UnknownNameError for a format that there is not, NotFoundError for a file
        that is not there.
        """
        return ZoneInfo(load_reader(self.source_format).clock(self.path, self.time_zone))

    def read(self, progress: Progress = silent, *, to_replay: bool = False) -> tuple[pd.DataFrame, list[str]]:
        """Read all jobs, as a job table (`to_replay`: of what a replay reads), and say which rows were left
        out.
        """
        frame, account = read_jobs_file(
            self.path,
            self.source_format,
            time_zone=self.time_zone,
            columns=READ_COLUMNS if to_replay else None,
            if_known=READ_IF_KNOWN if to_replay else (),
            progress=progress,
        )
        pa.default_memory_pool().release_unused()  # what reading took is no help to a replay
        if not account.left_out:
            return frame, []
        return frame, [f"Rows of the log that are not replayed: {account.left_out}."]

    def part(self, jobs: pd.DataFrame) -> WarmJobs:
        """Return the jobs that count, with those that fill the cluster before them. Raises BadInputError when
        none count.
        """
        zone = self.zone
        counted = within(jobs, self.start, self.end, zone)
        if self.start is None or not self.warm_up_days:
            everything = np.ones(len(counted), dtype=bool)
            earlier = jobs[jobs["submit_time"] < counted["submit_time"].min()]
            begins = counted["submit_time"].min().to_pydatetime()
            return WarmJobs(counted.reset_index(drop=True), everything, earlier, begins, None, None)
        start = in_zone(self.start, zone).to_pydatetime()
        end = None if self.end is None else in_zone(self.end, zone).to_pydatetime() + TICK
        since = warm_up_start(jobs, start, self.warm_up_days)
        return warm_jobs(jobs, start, end, warm_up_from=since)


def read_lake_jobs(
    site: Site, start: datetime | None, end: datetime | None, *, warm_up_days: float
) -> WarmJobs:
    """Return a cluster's jobs submitted in [start, end), with those that fill the cluster before them.

    Naive times are UTC. Raises BadInputError when none count.
    """
    zone = ZoneInfo("UTC")
    until = None if end is None else in_zone(end, zone).to_pydatetime()
    jobs = Lake(site.lake).read_jobs(site.cluster, None, until)
    begins = jobs["submit_time"].min() if start is None else in_zone(start, zone)
    since = begins
    if warm_up_days and not jobs.empty:
        since = busy_days(site.lake, site.cluster).before(
            begins.to_pydatetime(), check_warm_up_days(warm_up_days)
        )
    warm = warm_jobs(jobs, begins, until, warm_up_from=since)
    if not warm.counted.any():
        first, last = submission_span(site.lake, site.cluster)
        raise BadInputError(
            f"No job of {site.cluster!r} was submitted from {start or 'the start'} to {end or 'the end'}: "
            f"the lake has {first} to {last}.",
            remedy="Choose a window inside it.",
        )
    return warm


def in_zone(bound: datetime, zone: ZoneInfo) -> pd.Timestamp:
    """Return a bound as an instant (UTC); a naive one is in `zone`."""
    return pd.Timestamp(bound if bound.tzinfo else bound.replace(tzinfo=zone)).tz_convert("UTC")


def within(jobs: pd.DataFrame, start: datetime | None, end: datetime | None, zone: ZoneInfo) -> pd.DataFrame:
    """Return the jobs submitted from `start` to `end`, both included; naive bounds are in `zone`."""
    if start is not None and end is not None and in_zone(end, zone) < in_zone(start, zone):
        raise BadInputError(f"--end {end} lies before --start {start}.", remedy="Swap them.")
    part = jobs
    if start is not None:
        part = part[part["submit_time"] >= in_zone(start, zone)]
    if end is not None:
        part = part[part["submit_time"] <= in_zone(end, zone)]
    if part.empty:
        raise BadInputError(
            f"No job was submitted from {start or 'the start'} to {end or 'the end'}: the log covers "
            f"{jobs['submit_time'].min()} to {jobs['submit_time'].max()}.",
            remedy="Choose a window inside it.",
        )
    return part
