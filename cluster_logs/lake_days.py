"""A cluster's part of a lake's table, day by day: read in the order of time, merged into what is there."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_table import to_frame
from cluster_logs.lake_files import LakeFiles, schema_of
from cluster_logs.reading_again import unchanged
from foundation.errors import BadInputError, NotFoundError
from foundation.storage import list_files


def as_instant(when: datetime) -> datetime:
    """The instant, where a time without a zone is UTC."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


class LakeDays:
    """The days of all tables of one lake; who may change them, and when, is its caller's."""

    def __init__(self, files: LakeFiles) -> None:
        self._files = files
        self._writes = files.writes

    def clusters(self, table: str) -> list[str]:
        """The clusters that have rows in a table, by name."""
        paths = (info.path for info in list_files(self._files.fs, f"{self._files.root}/{table}"))
        matches = (re.search(r"/cluster=([^/]+)/", path) for path in paths)
        return sorted({match.group(1) for match in matches if match})

    def merge(
        self,
        table: str,
        cluster: str,
        days: Iterable[tuple[date, pa.Table]],
        merge: Callable[[pa.Table, pa.Table], pa.Table],
    ) -> int:
        """Merge each day's newer rows into its file; the number of files that changed."""
        changed = 0
        for day, newer in days:
            older = self._files.read_day(table, cluster, day)
            merged = merge(schema_of(table).empty_table() if older is None else older, newer)
            changed += self._files.replace_day(table, cluster, day, older, merged)
        return changed

    def iterate(
        self,
        table: str,
        cluster: str,
        time: str,
        start: datetime | None,
        end: datetime | None,
        columns: Sequence[str] | None,
    ) -> Iterator[pa.Table]:
        """The rows whose `time` (a column) lies in [start, end), one table a day, in order."""
        schema = schema_of(table)
        unknown = [name for name in columns or () if name not in schema.names]
        if unknown:
            raise BadInputError(
                f"The {table} table has no column {unknown[0]!r}.",
                remedy=f"Choose among: {', '.join(schema.names)}.",
            )
        writes = self._writes.check_readable(cluster, table)
        partitions = self._files.partitions(table, cluster)
        if not partitions:
            raise self.not_found(table, cluster)
        first = None if start is None else as_instant(start)
        last = None if end is None else as_instant(end)
        for day in sorted(partitions):
            if (first and day < first.date()) or (last and day > last.date()):
                continue
            wanted = None if columns is None else [*columns, time]
            rows = self._files.read_file(table, cluster, partitions[day], wanted)
            if rows is None:
                continue
            if first:
                rows = rows.filter(
                    pc.greater_equal(rows.column(time), pa.scalar(first, rows.schema.field(time).type))
                )
            if last:
                rows = rows.filter(pc.less(rows.column(time), pa.scalar(last, rows.schema.field(time).type)))
            yield rows if columns is None else rows.select(list(columns))
        self._writes.check_unchanged(cluster, table, writes)

    def read(
        self,
        table: str,
        cluster: str,
        time: str,
        start: datetime | None,
        end: datetime | None,
        columns: Sequence[str] | None,
    ) -> pd.DataFrame:
        """The same as one frame. Raises NotFoundError when the cluster has no row in the table."""
        tables = unchanged(lambda: list(self.iterate(table, cluster, time, start, end, columns)))
        schema = (
            schema_of(table)
            if columns is None
            else pa.schema([schema_of(table).field(name) for name in columns])
        )
        return to_frame(pa.concat_tables([schema.empty_table(), *tables]))

    def not_found(self, table: str, cluster: str) -> NotFoundError:
        """The error of a cluster that has nothing in a table."""
        cluster_names = ", ".join(self.clusters(table)) or "none"
        return NotFoundError(
            f"The lake {self._files.uri} has no {table} of cluster {cluster!r}.",
            remedy=f"Clusters that have: {cluster_names}. `lucid ingest` or `lucid synthesize` fills it.",
        )
