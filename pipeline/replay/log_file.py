"""Which jobs of which log are replayed."""

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import pandas as pd

from cluster_logs.ingest import read_jobs_file
from cluster_logs.lake import Lake
from cluster_logs.readers.registry import load_reader
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from pipeline.training.windows import submission_span


@dataclass(frozen=True)
class LogFile:
    """A log in one of the formats, and the part of it that counts.

    `start` and `end` keep the jobs submitted between them, both included; naive times are on the log's own
    clock, which is that of `time_zone` where the format does not say.
    """

    path: str
    source_format: str
    start: datetime | None = None
    end: datetime | None = None
    time_zone: str | None = None

    @property
    def zone(self) -> ZoneInfo:
        """The log's clock. Raises UnknownNameError for a format that there is not, NotFoundError for a file
        that is not there.
        """
        return ZoneInfo(load_reader(self.source_format).clock(self.path, self.time_zone))

    def read(self, progress: Progress = silent) -> tuple[pd.DataFrame, list[str]]:
        """Read all jobs, as a job table, and say which rows were left out."""
        frame, account = read_jobs_file(
            self.path, self.source_format, time_zone=self.time_zone, progress=progress
        )
        if not account.left_out:
            return frame, []
        return frame, [f"Rows of the log that are not replayed: {account.left_out}."]

    def part(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Return the jobs that count. Raises BadInputError when there are none."""
        return within(jobs, self.start, self.end, self.zone)


def read_lake_jobs(lake_uri: str, cluster: str, start: datetime | None, end: datetime | None) -> pd.DataFrame:
    """Return a cluster's jobs submitted in [start, end). Raises BadInputError when there are none."""
    jobs = Lake(lake_uri).read_jobs(cluster, start, end)
    if jobs.empty:
        first, last = submission_span(lake_uri, cluster)
        raise BadInputError(
            f"No job of {cluster!r} was submitted from {start or 'the start'} to {end or 'the end'}: the "
            f"lake has {first} to {last}.",
            remedy="Choose a window inside it.",
        )
    return jobs


def within(jobs: pd.DataFrame, start: datetime | None, end: datetime | None, zone: ZoneInfo) -> pd.DataFrame:
    """Return the jobs submitted from `start` to `end`, both included; naive bounds are in `zone`."""

    def in_utc(bound: datetime) -> pd.Timestamp:
        return pd.Timestamp(bound if bound.tzinfo else bound.replace(tzinfo=zone)).tz_convert("UTC")

    if start is not None and end is not None and in_utc(end) < in_utc(start):
        raise BadInputError(f"--end {end} lies before --start {start}.", remedy="Swap them.")
    part = jobs
    if start is not None:
        part = part[part["submit_time"] >= in_utc(start)]
    if end is not None:
        part = part[part["submit_time"] <= in_utc(end)]
    if part.empty:
        raise BadInputError(
            f"No job was submitted from {start or 'the start'} to {end or 'the end'}: the log covers "
            f"{jobs['submit_time'].min()} to {jobs['submit_time'].max()}.",
            remedy="Choose a window inside it.",
        )
    return part
