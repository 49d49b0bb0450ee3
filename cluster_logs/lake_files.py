"""The files of one lake: a table's part of a cluster, read and replaced as a whole; days; refused rows.

    ROOT/quarantine/cluster=C/ORIGIN.parquet          the source's rows 0 to ROWS_A_PART - 1
    ROOT/quarantine/cluster=C/ORIGIN~000001.parquet   the next ROWS_A_PART, where some were refused

A refused row is always in the part of its number, so the same rows twice give the same files, and memory does
not grow with the number of bad rows. A lake from before there were parts has all of an origin's rows in the
first file, which is divided when rows are added.
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from cluster_logs.cluster_writes import READER_WAITS_S, ClusterWrites
from cluster_logs.day_tables import day_table
from cluster_logs.job_table import (
    JOB_SCHEMA,
    NODES_SCHEMA,
    QUARANTINE_SCHEMA,
    THROUGHPUT_SCHEMA,
    conform,
    to_frame,
)
from cluster_logs.metrics.job_metrics import JOB_METRICS_SCHEMA
from cluster_logs.node_states import NODE_STATES_SCHEMA
from cluster_logs.quarantine import MAX_RAW_BYTES, MAX_VALUE_BYTES, cut_evidence
from foundation.errors import BadInputError, ChangedWhileReadError, NotFoundError
from foundation.outside_names import check_cluster_name
from foundation.storage import list_files, locate, write_atomically

SCHEMAS = {
    "jobs": JOB_SCHEMA,
    "throughput": THROUGHPUT_SCHEMA,
    "quarantine": QUARANTINE_SCHEMA,
    "nodes": NODES_SCHEMA,
    "metrics": JOB_METRICS_SCHEMA,
    "node_states": NODE_STATES_SCHEMA,
}
PART = "part-0.parquet"


_DATE_FOLDER = re.compile(r"/date=(\d{4}-\d{2}-\d{2})/[^/]+\.parquet$")

ROWS_A_PART = 16_384

_TABLE = "quarantine"
_ORDER = ("source_file", "source_row", "reason", "column", "raw_row", "value", "source_format")

Result = TypeVar("Result")


def schema_of(table: str) -> pa.Schema:
    """The columns of a table, of the core or of a part; errors as in `day_table`."""
    return SCHEMAS[table] if table in SCHEMAS else day_table(table).schema


class LakeFiles:
    """Reads and replaces files under one root; `writes` says which process may."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/") if uri.rstrip("/") else uri
        self.fs, root = locate(uri)
        self.root = root.rstrip("/")
        self.writes = ClusterWrites(self.fs, self.root, self.uri)

    def folder(self, table: str, cluster: str, day: date | None = None) -> str:
        """Where a cluster's part of a table, or a day of it, lies."""
        folder = f"{self.root}/{table}/cluster={check_cluster_name(cluster)}"
        return folder if day is None else f"{folder}/date={day.isoformat()}"

    def partitions(self, table: str, cluster: str) -> dict[date, str]:
        """The file of each day that has one."""
        files = list_files(self.fs, self.folder(table, cluster))
        found = ((_DATE_FOLDER.search(info.path), info.path) for info in files)
        return {date.fromisoformat(match.group(1)): path for match, path in found if match}

    def own(self, rows: pa.Table | pd.DataFrame, cluster: str, table: str) -> pa.Table:
        """The rows as this cluster's rows of a table, in the table's schema."""
        schema = schema_of(table)
        rest = pa.schema([field for field in schema if field.name != "cluster"])
        return _with_cluster(conform(rows, rest, what=f"{table} table"), cluster, schema)

    def read_day(self, table: str, cluster: str, day: date) -> pa.Table | None:
        """One day's rows, or None when there are none."""
        return self.read_file(table, cluster, f"{self.folder(table, cluster, day)}/{PART}")

    def read_file(
        self, table: str, cluster: str, path: str, columns: Sequence[str] | None = None
    ) -> pa.Table | None:
        """A file with its cluster column put back (it lives in the folder's name), or None when it is not
        there.
        """
        if self.fs.get_file_info(path).type != pafs.FileType.File:
            return None
        schema = schema_of(table)
        if columns is not None:
            schema = pa.schema([field for field in schema if field.name in columns])
        stored_schema = pa.schema([field for field in schema if field.name != "cluster"])
        with self.fs.open_input_file(path) as source:
            file = pq.ParquetFile(source)
            stored = [name for name in stored_schema.names if name in file.schema_arrow.names]
            rows = file.read(columns=stored)
        return _with_cluster(conform(rows, stored_schema, what=path), cluster, schema)

    def rows_by_day(self, table: str, cluster: str) -> dict[date, int]:
        """How many rows each day of a table has; no row is read."""
        days = self.partitions(table, cluster)
        return {day: count_rows(self.fs, days[day]) for day in sorted(days)}

    def replace_day(
        self, table: str, cluster: str, day: date, older: pa.Table | None, newer: pa.Table
    ) -> bool:
        """Write a day's file, or delete it when no row is left; whether it changed."""
        path = f"{self.folder(table, cluster, day)}/{PART}"
        if not newer.num_rows:
            if older is not None:
                self.writes.changing(cluster, table)
                self.fs.delete_dir(self.folder(table, cluster, day))
            return older is not None
        return self.replace_file(table, cluster, path, older, newer)

    def replace_file(
        self, table: str, cluster: str, path: str, older: pa.Table | None, newer: pa.Table
    ) -> bool:
        """Write a file unless it holds the same rows already; whether it was written."""
        if older is not None and older.equals(newer):
            return False
        stored = newer.drop_columns(["cluster"])
        dictionary = [
            field.name
            for field in stored.schema
            if pa.types.is_string(field.type) and field.name not in ("job_id", "raw_row")
        ]
        self.writes.changing(cluster, table)
        write_atomically(
            self.fs,
            path,
            lambda sink: pq.write_table(
                stored, sink, compression="zstd", compression_level=1, use_dictionary=dictionary
            ),
        )
        return True


def count_rows(fs: pafs.FileSystem, path: str) -> int:
    """The rows of a Parquet file, as its footer says."""
    with fs.open_input_file(path) as source:
        return int(pq.ParquetFile(source).metadata.num_rows)


def _with_cluster(rows: pa.Table, cluster: str, schema: pa.Schema) -> pa.Table:
    columns = [
        pa.repeat(pa.scalar(cluster, pa.string()), rows.num_rows) if name == "cluster" else rows.column(name)
        for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def by_day(table: pa.Table, time: str, *, before: bool = False) -> Iterator[tuple[date, pa.Table]]:
    """The table's rows of each UTC day, in order of days; with `before`, midnight is the day before's end."""
    days = (table.column(time).cast(pa.int64()).to_numpy() - before) // (86_400 * 1_000_000)
    order = np.argsort(days, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(days[order]) != 0)).tolist() if len(days) else []
    ordered = table.take(pa.array(order))
    for index, start in enumerate(starts):
        stop = starts[index + 1] if index + 1 < len(starts) else len(days)
        day = date(1970, 1, 1) + timedelta(days=int(days[order[start]]))
        yield day, ordered.slice(int(start), int(stop - start))


# Days of a table: read in the order of time, merged into what is there ----------------------------------


def as_instant(when: datetime) -> datetime:
    """The instant, where a time without a zone is UTC."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def unchanged(read: Callable[[], Result]) -> Result:
    """What `read` gives, which begins from the beginning each time.

    Raises ChangedWhileReadError when writers follow one another for so long that none of the readings begun
    within READER_WAITS_S was whole.
    """
    until_s = time.monotonic() + READER_WAITS_S
    while True:
        try:
            return read()
        except ChangedWhileReadError:
            if time.monotonic() >= until_s:
                raise


class LakeDays:
    """The days of all tables of one lake; its caller sees to it that one process changes them at a time."""

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
        """The rows with `time` (a column) in [start, end), one table a day, in order."""
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


# The table of refused rows ------------------------------------------------------------------------------


def part_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The part of each refused row, shape (rows,)."""
    numbers: npt.NDArray[np.int64] = rows.column("source_row").to_numpy()
    return numbers // ROWS_A_PART


@dataclass(frozen=True)
class ReasonOfRows:
    """A reason, how many rows of a cluster it refused, and some of them (columns of REFUSED_SCHEMA)."""

    reason: str
    rows: int
    samples: Sequence[Mapping[str, Any]]


class QuarantineTable:
    """Reads and adds the refused rows of a lake's clusters."""

    def __init__(self, files: LakeFiles) -> None:
        self._files = files

    def add(self, cluster: str, origin: str, tables: Iterable[pa.Table]) -> bool:
        """Add refused rows under the name of their origin; whether any file changed."""
        first = self._path(cluster, origin, 0)
        older = self._files.read_file(_TABLE, cluster, first, ["source_row"])
        changed = False
        if older is not None and pc.max(older.column("source_row")).as_py() >= ROWS_A_PART:
            changed = self._divide(cluster, origin)
        for table in tables:
            for part, rows in _by_part(self._files.own(table, cluster, _TABLE)):
                changed |= self._merge(cluster, self._path(cluster, origin, part), rows)
        return changed

    def read(self, cluster: str) -> pa.Table:
        """All refused rows of a cluster."""
        files = list_files(self._files.fs, self._files.folder(_TABLE, cluster))
        tables = [self._files.read_file(_TABLE, cluster, info.path) for info in files]
        return pa.concat_tables([QUARANTINE_SCHEMA.empty_table(), *(t for t in tables if t is not None)])

    def by_reason(self, cluster: str, samples: int) -> list[ReasonOfRows]:
        """How many rows each reason refused, the most first, each with its first few rows; file by file, so
        that memory does not grow with their number.
        """
        counts: Counter[str] = Counter()
        shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for info in list_files(self._files.fs, self._files.folder(_TABLE, cluster)):
            reasons = self._files.read_file(_TABLE, cluster, info.path, ["reason"])
            here = [] if reasons is None else pc.value_counts(reasons.column("reason")).to_pylist()
            counts.update({each["values"]: each["counts"] for each in here})
            wanted = [each["values"] for each in here if len(shown[each["values"]]) < samples]
            rows = self._files.read_file(_TABLE, cluster, info.path) if wanted else None
            for reason in wanted:
                if rows is None:
                    break  # removed meanwhile
                first = rows.filter(pc.equal(rows.column("reason"), reason))
                shown[reason] += first.slice(0, samples - len(shown[reason])).to_pylist()
        return [ReasonOfRows(reason, rows, shown[reason]) for reason, rows in counts.most_common()]

    def _divide(self, cluster: str, origin: str) -> bool:
        """Give the rows of a file from before there were parts their own parts; the first comes last, so that
        a row is twice in the table rather than not at all if this ends in between.
        """
        first = self._path(cluster, origin, 0)
        older = self._files.read_file(_TABLE, cluster, first)
        parts = dict(_by_part(older)) if older is not None else {}
        rest = parts.pop(0, QUARANTINE_SCHEMA.empty_table())
        for part, rows in parts.items():
            self._merge(cluster, self._path(cluster, origin, part), rows)
        if rest.num_rows:
            return self._files.replace_file(_TABLE, cluster, first, older, rest)
        self._files.writes.changing(cluster, _TABLE)
        self._files.fs.delete_file(first)
        return True

    def _merge(self, cluster: str, path: str, newer: pa.Table) -> bool:
        older = self._files.read_file(_TABLE, cluster, path)
        both = _with_short_evidence(newer if older is None else pa.concat_tables([older, newer]))
        names = [name for name in QUARANTINE_SCHEMA.names if name != "cluster"]
        merged = (
            both.group_by(names, use_threads=False)
            .aggregate([])
            .sort_by([(name, "ascending") for name in _ORDER])
        )
        return self._files.replace_file(
            _TABLE, cluster, path, older, self._files.own(merged, cluster, _TABLE)
        )

    def _path(self, cluster: str, origin: str, part: int) -> str:
        name = f"{check_cluster_name(origin)}~{part:06d}" if part else check_cluster_name(origin)
        return f"{self._files.folder(_TABLE, cluster)}/{name}.parquet"


def _by_part(rows: pa.Table) -> Iterable[tuple[int, pa.Table]]:
    parts = part_of(rows)
    for part in np.unique(parts).tolist():
        yield part, rows.filter(pa.array(parts == part))


def _with_short_evidence(rows: pa.Table) -> pa.Table:
    for name, most in (("raw_row", MAX_RAW_BYTES), ("value", MAX_VALUE_BYTES)):
        column = rows.column(name)
        longest = pc.max(pc.binary_length(column)).as_py()
        if longest is not None and longest > most:
            texts = [None if text is None else cut_evidence(text, most) for text in column.to_pylist()]
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(name), pa.array(texts, pa.string()))
    return rows
