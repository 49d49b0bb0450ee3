"""The lake: Parquet under one root URI, in hive partitions that any Parquet tool can open.

    ROOT/jobs/cluster=C/date=YYYY-MM-DD/part-0.parquet         date: UTC day of submission
    ROOT/throughput/cluster=C/date=YYYY-MM-DD/part-0.parquet   date: UTC day of the bin
    ROOT/quarantine/cluster=C/ORIGIN.parquet                   one file a source
    ROOT/nodes/cluster=C/part-0.parquet
    ROOT/metrics/cluster=C/date=YYYY-MM-DD/part-0.parquet      date: UTC day of what was measured

Writing merges: the same rows twice leave every file as it was, byte for byte. Each file is replaced in one
move (`cluster_logs.storage`). Two writers of the same cluster at the same time are not coordinated here: the
pipeline runs one ingest of a cluster at a time.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from cluster_logs.cluster_names import check_cluster_name
from cluster_logs.errors import BadInputError, NotFoundError
from cluster_logs.job_table import (
    JOB_SCHEMA,
    NODES_SCHEMA,
    QUARANTINE_SCHEMA,
    THROUGHPUT_SCHEMA,
    conform,
    to_frame,
)
from cluster_logs.merging import group_by_key, merge_jobs, merge_throughput
from cluster_logs.metrics.job_metrics import JOB_METRICS_SCHEMA, check_origins, merge_metrics
from cluster_logs.storage import list_files, locate, write_atomically

SCHEMAS = {
    "jobs": JOB_SCHEMA,
    "throughput": THROUGHPUT_SCHEMA,
    "quarantine": QUARANTINE_SCHEMA,
    "nodes": NODES_SCHEMA,
    "metrics": JOB_METRICS_SCHEMA,
}

_DATE_FOLDER = re.compile(r"/date=(\d{4}-\d{2}-\d{2})/[^/]+\.parquet$")
_PART = "part-0.parquet"


def _instant(when: datetime) -> datetime:
    """The instant, where a time without a zone is UTC."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


class Lake:
    """The tables of all clusters under one root URI."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/") if uri.rstrip("/") else uri
        self._fs, root = locate(uri)
        self._root = root.rstrip("/")

    def table_uri(self, table: str, cluster: str) -> str:
        """Where a cluster's part of a table lies."""
        return f"{self.uri}/{table}/cluster={cluster}"

    def clusters(self, table: str = "jobs") -> list[str]:
        """The clusters that have rows in a table, by name."""
        paths = (info.path for info in list_files(self._fs, f"{self._root}/{table}"))
        found = (re.search(r"/cluster=([^/]+)/", path) for path in paths)
        return sorted({match.group(1) for match in found if match})

    def dates(self, cluster: str, table: str = "jobs") -> list[date]:
        """The days of a table that hold rows, in order."""
        return sorted(self._partitions(table, cluster))

    # Jobs ----------------------------------------------------------------------------------------------

    def write_jobs(self, cluster: str, jobs: pa.Table | pd.DataFrame) -> int:
        """Merge jobs of any days into the lake by (job_id, submit_time); the number of files that changed.

        The newer row of a key wins (`cluster_logs.merging.merge_jobs`). The `cluster` column, if any, is
        replaced.
        """
        table = self._own(jobs, cluster, "jobs")
        return sum(self.write_jobs_of_day(cluster, day, part) for day, part in _by_day(table, "submit_time"))

    def write_jobs_of_day(self, cluster: str, day: date, jobs: pa.Table) -> bool:
        """Merge jobs (JOB_SCHEMA) that were all submitted on one UTC day; whether the file changed."""
        older = self._read_day("jobs", cluster, day)
        empty = JOB_SCHEMA.empty_table()
        return self._replace("jobs", cluster, day, older, merge_jobs(empty if older is None else older, jobs))

    def delete_jobs(self, cluster: str, keys: pa.Table | pd.DataFrame) -> int:
        """Take the jobs with these keys (columns job_id, submit_time) out of the lake; the number taken
        out.
        """
        key_schema = pa.schema([JOB_SCHEMA.field("job_id"), JOB_SCHEMA.field("submit_time")])
        wanted = conform(keys, key_schema, what="table of keys")
        removed = 0
        for day, part in _by_day(wanted, "submit_time"):
            table = self._read_day("jobs", cluster, day)
            if table is None:
                continue
            groups = group_by_key(pa.concat_tables([part, table.select(key_schema.names)]))
            keep = ~np.isin(groups[part.num_rows :], groups[: part.num_rows])
            removed += int((~keep).sum())
            self._replace("jobs", cluster, day, table, table.filter(pa.array(keep)))
        return removed

    def iter_jobs(
        self,
        cluster: str,
        start: datetime | None = None,
        end: datetime | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.Table]:
        """The jobs submitted in [start, end), one table a day, in order; for tables larger than memory."""
        return self._iter_table("jobs", cluster, "submit_time", start, end, columns)

    def read_jobs(
        self,
        cluster: str,
        start: datetime | None = None,
        end: datetime | None = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """The jobs submitted in [start, end), sorted by submit_time, equal times in the source's order.

        A time without a zone is UTC. Raises NotFoundError when the lake has no jobs of the cluster at all.
        """
        return self._read("jobs", cluster, "submit_time", start, end, columns)

    # Throughput ----------------------------------------------------------------------------------------

    def write_throughput(self, cluster: str, bins: pa.Table | pd.DataFrame) -> int:
        """Merge bins into the lake; published bins stand above derived ones; the number of files that
        changed.
        """
        changed = 0
        for day, newer in _by_day(self._own(bins, cluster, "throughput"), "bin_start"):
            older = self._read_day("throughput", cluster, day)
            merged = merge_throughput(THROUGHPUT_SCHEMA.empty_table() if older is None else older, newer)
            changed += self._replace("throughput", cluster, day, older, merged)
        return changed

    def replace_derived_throughput(self, cluster: str, bins: pa.Table) -> int:
        """Write a whole derived series: like `write_throughput`, and derived days outside of it disappear."""
        days = {day for day, _ in _by_day(bins, "bin_start")}
        changed = self.write_throughput(cluster, bins)
        for day in self.dates(cluster, "throughput"):
            older = self._read_day("throughput", cluster, day) if day not in days else None
            if older is not None:
                published = older.filter(pc.equal(older.column("origin"), "published"))
                changed += self._replace("throughput", cluster, day, older, published)
        return changed

    def delete_throughput(self, cluster: str, keys: pa.Table | pd.DataFrame) -> int:
        """Take the bins with these starts (column bin_start) out of the lake; the number taken out."""
        removed = 0
        wanted = conform(keys, pa.schema([THROUGHPUT_SCHEMA.field("bin_start")]), what="table of keys")
        for day, part in _by_day(wanted, "bin_start"):
            table = self._read_day("throughput", cluster, day)
            if table is None:
                continue
            keep = pc.invert(pc.is_in(table.column("bin_start"), value_set=part.column("bin_start")))
            removed += table.num_rows - (pc.sum(keep).as_py() or 0)
            self._replace("throughput", cluster, day, table, table.filter(keep))
        return removed

    def read_throughput(
        self, cluster: str, start: datetime | None = None, end: datetime | None = None
    ) -> pd.DataFrame:
        """The bins that start in [start, end), by time. Raises NotFoundError when there are none of the
        cluster.
        """
        return self._read("throughput", cluster, "bin_start", start, end, None)

    # Metrics of jobs -----------------------------------------------------------------------------------

    def write_job_metrics(self, cluster: str, metrics: pa.Table | pd.DataFrame) -> int:
        """Merge rows of JOB_METRICS_SCHEMA by job, origin and day (`merge_metrics`); the number of files that
        changed.
        """
        table = self._own(metrics, cluster, "metrics")
        check_origins(table)
        changed = 0
        for day, newer in _by_day(table, "known_time", before=True):
            older = self._read_day("metrics", cluster, day)
            merged = merge_metrics(JOB_METRICS_SCHEMA.empty_table() if older is None else older, newer)
            changed += self._replace("metrics", cluster, day, older, merged)
        return changed

    def read_job_metrics(self, cluster: str, known_until: datetime | None = None) -> pd.DataFrame:
        """The metrics of jobs that were known at a moment (default: all), day by day; empty without any."""
        days = self._partitions("metrics", cluster)
        tables = [self._read_file("metrics", cluster, days[day]) for day in sorted(days)]
        table = pa.concat_tables([JOB_METRICS_SCHEMA.empty_table(), *(t for t in tables if t is not None)])
        if known_until is not None:
            moment = pa.scalar(_instant(known_until), table.schema.field("known_time").type)
            table = table.filter(pc.less_equal(table.column("known_time"), moment))
        return to_frame(table)

    # Quarantine ----------------------------------------------------------------------------------------

    def add_quarantine(self, cluster: str, origin: str, rows: pa.Table | pd.DataFrame) -> bool:
        """Add refused rows under the name of their origin (letters, digits, '.', '_', '-'); whether it
        changed.

        A row that is there already (same reason, column, row number and text) is not added twice.
        """
        path = f"{self._folder('quarantine', cluster)}/{check_cluster_name(origin)}.parquet"
        older = self._read_file("quarantine", cluster, path)
        newer = self._own(rows, cluster, "quarantine")
        if older is None and not newer.num_rows:
            return False
        both = newer if older is None else pa.concat_tables([older, newer])
        names = [name for name in QUARANTINE_SCHEMA.names if name != "cluster"]
        order = [
            (name, "ascending")
            for name in ("source_file", "source_row", "reason", "column", "raw_row", "value")
        ]
        merged = (
            both.group_by(names, use_threads=False)
            .aggregate([])
            .sort_by([*order, ("source_format", "ascending")])
        )
        return self._replace_file("quarantine", path, older, self._own(merged, cluster, "quarantine"))

    def read_quarantine(self, cluster: str) -> pd.DataFrame:
        """All refused rows of a cluster; an empty frame when there are none."""
        files = list_files(self._fs, self._folder("quarantine", cluster))
        tables = [self._read_file("quarantine", cluster, info.path) for info in files]
        return to_frame(
            pa.concat_tables([QUARANTINE_SCHEMA.empty_table(), *(t for t in tables if t is not None)])
        )

    # Nodes ---------------------------------------------------------------------------------------------

    def write_nodes(self, cluster: str, nodes: pa.Table | pd.DataFrame) -> bool:
        """Write node counts (virtual_cluster, nodes, gpus_per_node, optional date); whether the file changed.

        Undated rows replace all undated rows; dated rows replace the rows of the same day.
        """
        path = f"{self._folder('nodes', cluster)}/{_PART}"
        older = self._read_file("nodes", cluster, path)
        merged = newer = self._own(nodes, cluster, "nodes")
        if older is not None:
            replaced = pc.is_in(older.column("date"), value_set=pc.unique(newer.column("date")))
            merged = pa.concat_tables([older.filter(pc.invert(replaced)), newer])
        merged = merged.sort_by([("date", "ascending"), ("virtual_cluster", "ascending")])
        return self._replace_file("nodes", path, older, merged)

    def read_nodes(self, cluster: str, day: date | None = None) -> pd.DataFrame:
        """virtual_cluster, nodes, gpus_per_node: the counts that held on a day (default: the last known).

        Undated counts hold on every day that has no dated ones before it. A virtual cluster with zero nodes
        on the day is left out. Raises NotFoundError when there are none.
        """
        table = self._read_file("nodes", cluster, f"{self._folder('nodes', cluster)}/{_PART}")
        if table is None:
            raise self._not_found("nodes", cluster)
        frame = to_frame(table.drop_columns(["cluster", "date"]))
        frame["date"] = pd.Series(table.column("date").to_pylist(), dtype=object)
        dated = [held for held in frame["date"].dropna().unique() if day is None or held <= day]
        chosen = frame[frame["date"] == max(dated)] if dated else frame[frame["date"].isna()]
        chosen = chosen.loc[chosen["nodes"] > 0, ["virtual_cluster", "nodes", "gpus_per_node"]]
        return chosen.reset_index(drop=True)

    def node_dates(self, cluster: str) -> list[date]:
        """The days from which dated node counts hold, in order; none when all are undated or missing."""
        table = self._read_file("nodes", cluster, f"{self._folder('nodes', cluster)}/{_PART}")
        days = [] if table is None else table.column("date").to_pylist()
        return sorted({day for day in days if day is not None})

    # Files ---------------------------------------------------------------------------------------------

    def _own(self, rows: pa.Table | pd.DataFrame, cluster: str, table: str) -> pa.Table:
        """The rows as this cluster's rows of a table, in the table's schema."""
        check_cluster_name(cluster)
        schema = SCHEMAS[table]
        rest = pa.schema([field for field in schema if field.name != "cluster"])
        return _with_cluster(conform(rows, rest, what=f"{table} table"), cluster, schema)

    def _folder(self, table: str, cluster: str, day: date | None = None) -> str:
        folder = f"{self._root}/{table}/cluster={check_cluster_name(cluster)}"
        return folder if day is None else f"{folder}/date={day.isoformat()}"

    def _partitions(self, table: str, cluster: str) -> dict[date, str]:
        files = list_files(self._fs, self._folder(table, cluster))
        found = ((_DATE_FOLDER.search(info.path), info.path) for info in files)
        return {date.fromisoformat(match.group(1)): path for match, path in found if match}

    def _read_day(self, table: str, cluster: str, day: date) -> pa.Table | None:
        return self._read_file(table, cluster, f"{self._folder(table, cluster, day)}/{_PART}")

    def _read_file(
        self, table: str, cluster: str, path: str, columns: Sequence[str] | None = None
    ) -> pa.Table | None:
        """A file with its cluster column put back (it lives in the folder's name), or None when it is not
        there.
        """
        if self._fs.get_file_info(path).type != pafs.FileType.File:
            return None
        schema = SCHEMAS[table]
        if columns is not None:
            schema = pa.schema([field for field in schema if field.name in columns])
        stored_schema = pa.schema([field for field in schema if field.name != "cluster"])
        with self._fs.open_input_file(path) as source:
            file = pq.ParquetFile(source)
            stored = [name for name in stored_schema.names if name in file.schema_arrow.names]
            rows = file.read(columns=stored)
        return _with_cluster(conform(rows, stored_schema, what=path), cluster, schema)

    def _replace(self, table: str, cluster: str, day: date, older: pa.Table | None, newer: pa.Table) -> bool:
        path = f"{self._folder(table, cluster, day)}/{_PART}"
        if not newer.num_rows:
            if older is not None:
                self._fs.delete_dir(self._folder(table, cluster, day))
            return older is not None
        return self._replace_file(table, path, older, newer)

    def _replace_file(self, table: str, path: str, older: pa.Table | None, newer: pa.Table) -> bool:
        """Write a file unless it holds the same rows already; whether it was written."""
        if older is not None and older.equals(newer):
            return False
        stored = newer.drop_columns(["cluster"])
        dictionary = [
            field.name
            for field in stored.schema
            if pa.types.is_string(field.type) and field.name not in ("job_id", "raw_row")
        ]
        write_atomically(
            self._fs,
            path,
            lambda sink: pq.write_table(
                stored, sink, compression="zstd", compression_level=1, use_dictionary=dictionary
            ),
        )
        return True

    def _iter_table(
        self,
        table: str,
        cluster: str,
        time: str,
        start: datetime | None,
        end: datetime | None,
        columns: Sequence[str] | None,
    ) -> Iterator[pa.Table]:
        schema = SCHEMAS[table]
        unknown = [name for name in columns or () if name not in schema.names]
        if unknown:
            raise BadInputError(
                f"The {table} table has no column {unknown[0]!r}.",
                remedy=f"Choose among: {', '.join(schema.names)}.",
            )
        partitions = self._partitions(table, cluster)
        if not partitions:
            raise self._not_found(table, cluster)
        first = None if start is None else _instant(start)
        last = None if end is None else _instant(end)
        for day in sorted(partitions):
            if (first and day < first.date()) or (last and day > last.date()):
                continue
            wanted = None if columns is None else [*columns, time]
            rows = self._read_file(table, cluster, partitions[day], wanted)
            if rows is None:
                continue
            if first:
                rows = rows.filter(
                    pc.greater_equal(rows.column(time), pa.scalar(first, rows.schema.field(time).type))
                )
            if last:
                rows = rows.filter(pc.less(rows.column(time), pa.scalar(last, rows.schema.field(time).type)))
            yield rows if columns is None else rows.select(list(columns))

    def _read(
        self,
        table: str,
        cluster: str,
        time: str,
        start: datetime | None,
        end: datetime | None,
        columns: Sequence[str] | None,
    ) -> pd.DataFrame:
        tables = list(self._iter_table(table, cluster, time, start, end, columns))
        schema = (
            SCHEMAS[table] if columns is None else pa.schema([SCHEMAS[table].field(name) for name in columns])
        )
        return to_frame(pa.concat_tables([schema.empty_table(), *tables]))

    def _not_found(self, table: str, cluster: str) -> NotFoundError:
        known = ", ".join(self.clusters(table)) or "none"
        return NotFoundError(
            f"The lake {self.uri} has no {table} of cluster {cluster!r}.",
            remedy=f"Clusters that have: {known}. `lucid ingest` or `lucid synthesize` fills it.",
        )


def _with_cluster(rows: pa.Table, cluster: str, schema: pa.Schema) -> pa.Table:
    columns = [
        pa.repeat(pa.scalar(cluster, pa.string()), rows.num_rows) if name == "cluster" else rows.column(name)
        for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _by_day(table: pa.Table, time: str, *, before: bool = False) -> Iterator[tuple[date, pa.Table]]:
    """The table's rows of each UTC day, in order of days; with `before`, midnight is the day before's end."""
    days = (table.column(time).cast(pa.int64()).to_numpy() - before) // (86_400 * 1_000_000)
    order = np.argsort(days, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(days[order]) != 0)).tolist() if len(days) else []
    ordered = table.take(pa.array(order))
    for index, start in enumerate(starts):
        stop = starts[index + 1] if index + 1 < len(starts) else len(days)
        day = date(1970, 1, 1) + timedelta(days=int(days[order[start]]))
        yield day, ordered.slice(int(start), int(stop - start))
