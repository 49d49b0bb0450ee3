"""A series of measurements into the lake, whatever it is of: its rows and its refused rows, as one change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.ingest import IngestReport, IngestSettings, ingest_log
from cluster_logs.lake import Lake
from cluster_logs.log_span import submission_span
from cluster_logs.metrics.prometheus import PrometheusQuery
from cluster_logs.metrics.series_queries import MeasuredRows
from foundation.progress import Progress


@dataclass(frozen=True, kw_only=True)
class RowsReport:
    """What became of the rows of a source; `reasons` by reason of quarantine and rule of skipping."""

    cluster: str
    rows_in: int
    rows_kept: int
    rows_quarantined: int
    rows_skipped: int
    reasons: dict[str, int]
    files_changed: int
    tables: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SeriesReport(RowsReport):
    """The same of a series, with the times of its first and last row that were kept."""

    first: datetime | None
    last: datetime | None


@dataclass(frozen=True)
class SeriesTable:
    """A table of the lake: what it holds in words, what its quarantine is called, and how it is written."""

    name: str
    words: str
    refused: str
    write: Callable[[Lake, str, pa.Table], int]


def write_series(
    lake: Lake, cluster: str, table: SeriesTable, measured: MeasuredRows, progress: Progress
) -> SeriesReport:
    """Write what was measured into the lake; the same twice changes nothing."""
    rows, account = measured.rows, measured.accounting
    with lake.writing(cluster, f"ingest of {table.words}", (table.name, "quarantine"), progress=progress):
        changed = table.write(lake, cluster, rows) if rows.num_rows else 0
        if measured.refused.num_rows:
            lake.add_quarantine(cluster, table.refused, measured.refused)
    times = pc.min_max(rows.column("time")).as_py()
    return SeriesReport(
        cluster=cluster,
        **account.totals(),
        reasons=account.reasons(),
        first=times["min"],
        last=times["max"],
        files_changed=changed,
        tables=(lake.table_uri(table.name, cluster),),
    )


@dataclass(frozen=True)
class RecordedSeries:
    """Where a DAG's run takes a cluster's series from: a file, else a server by these queries.

    Of the server [start, end) is read, default: as long as jobs were submitted.
    """

    lake_uri: str
    cluster: str
    input_uri: str | None = None
    time_zone: str | None = None
    prometheus_url: str | None = None
    queries: Sequence[str] = ()
    start: datetime | None = None
    end: datetime | None = None

    @property
    def is_named(self) -> bool:
        """Whether a file or a server is named."""
        return bool(self.input_uri or (self.prometheus_url and self.queries))

    def server(self, step_s: float) -> PrometheusQuery | None:
        """The server's range in steps of so many seconds; None where none is to be asked."""
        if self.input_uri or not self.prometheus_url or not self.queries:
            return None
        start, end = self.start, self.end
        if start is None or end is None:
            first, last = submission_span(self.lake_uri, self.cluster)
            start, end = start or first, end or last + timedelta(seconds=step_s)
        return PrometheusQuery(self.prometheus_url, start, end, step_s)

    def ingest_file(self, uri: str, source_format: str, progress: Progress, **reading: Any) -> IngestReport:
        """Read a file of this format; `reading`: more of its settings."""
        return ingest_log(
            source_format=source_format,
            input_uri=uri,
            cluster=self.cluster,
            lake_uri=self.lake_uri,
            settings=IngestSettings(time_zone=self.time_zone, **reading),
            progress=progress,
        )
