"""The lake: Parquet under one root URI, in hive partitions that any Parquet tool can open.

    ROOT/jobs/cluster=C/date=YYYY-MM-DD/part-0.parquet         date: UTC day of submission
    ROOT/throughput/cluster=C/date=YYYY-MM-DD/part-0.parquet   date: UTC day of the bin
    ROOT/quarantine/cluster=C/ORIGIN.parquet                   refused rows (`lake_files`)
    ROOT/nodes/cluster=C/part-0.parquet
    ROOT/node_states/cluster=C/date=YYYY-MM-DD/part-0.parquet  date: UTC day of the count
    ROOT/metrics/cluster=C/date=YYYY-MM-DD/part-0.parquet      date: UTC day of what was measured
    ROOT/TABLE/cluster=C/date=YYYY-MM-DD/part-0.parquet        of parts (`day_tables`)
    ROOT/clusters/cluster=C/record.json                        where the rows come from, what is being written

Writing merges: the same rows twice leave every file as it was, byte for byte. Each file is replaced in one
move (`foundation.storage`). A cluster has one writer at a time, and readers refuse tables that a writer
began to change and did not end (`cluster_logs.cluster_writes`). Rows of a real log and of a synthetic one
never mix in a cluster.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.cluster_writes import WRITER_WAITS_S, LogOrigin, WriteSession, logs_of_rows
from cluster_logs.day_tables import day_table
from cluster_logs.job_table import (
    JOB_SCHEMA,
    REFUSED_SCHEMA,
    THROUGHPUT_SCHEMA,
    conform,
    group_by_key,
    merge_jobs,
    merge_throughput,
    to_frame,
)
from cluster_logs.lake_files import (
    PART,
    LakeDays,
    LakeFiles,
    QuarantineTable,
    ReasonOfRows,
    as_instant,
    by_day,
    unchanged,
)
from cluster_logs.metrics.job_metrics import JOB_METRICS_SCHEMA, check_origins, merge_metrics
from cluster_logs.node_states import DERIVED, hold_gaps, merge_node_states
from cluster_logs.node_table import without_unknown_facts
from foundation.progress import Progress, silent


class Lake:
    """The tables of all clusters under one root URI.

    A writer waits for another one at most `wait_s` seconds (default: WRITER_WAITS_S). `writes`: the locks and
    notes of changes, by cluster.
    """

    def __init__(self, uri: str, *, wait_s: float | None = None) -> None:
        self._files = LakeFiles(uri)
        self.writes = self._files.writes
        self._days = LakeDays(self._files)
        self._quarantine = QuarantineTable(self._files)
        self._wait_s = WRITER_WAITS_S if wait_s is None else wait_s
        self.uri = self._files.uri

    def table_uri(self, table: str, cluster: str) -> str:
        """Where a cluster's part of a table lies."""
        return f"{self.uri}/{table}/cluster={cluster}"

    def clusters(self, table: str = "jobs") -> list[str]:
        """The clusters that have rows in a table, by name."""
        return self._days.clusters(table)

    def dates(self, cluster: str, table: str = "jobs") -> list[date]:
        """The days of a table that hold rows, in order."""
        self.writes.check_readable(cluster, table)
        return sorted(self._files.partitions(table, cluster))

    def rows_by_day(self, cluster: str, table: str = "jobs") -> dict[date, int]:
        """How many rows each day of a table has, in order; empty where it has none."""
        self.writes.check_readable(cluster, table)
        return self._files.rows_by_day(table, cluster)

    # Writers, readers, tables ----------------------------------------------------------------------------

    def writing(
        self,
        cluster: str,
        task: str,
        tables: Sequence[str],
        *,
        inputs: Sequence[str] = (),
        progress: Progress = silent,
        over: bool = False,
        repairs: bool = True,
    ) -> AbstractContextManager[WriteSession]:
        """Be the cluster's only writer, for a task of several writes (`ClusterWrites.session`).

        What is written within is one change: readers refuse the `tables` from the first file that changes
        until the end, and also if the process dies in between; then the same `task` again completes it.
        """
        return self.writes.session(
            cluster,
            task,
            tables,
            inputs=inputs,
            wait_s=self._wait_s,
            progress=progress,
            over=over,
            repairs=repairs,
        )

    def _alone(self, cluster: str, table: str) -> AbstractContextManager[WriteSession]:
        return self.writing(cluster, f"a write of {table}", (table,))

    # Jobs ----------------------------------------------------------------------------------------------

    def write_jobs(self, cluster: str, jobs: pa.Table | pd.DataFrame) -> int:
        """Merge jobs of any days into the lake by (job_id, submit_time); the number of files that changed.

        The newer row of a key wins (`cluster_logs.job_table.merge_jobs`). The `cluster` column, if any, is
        replaced.
        """
        table = self._files.own(jobs, cluster, "jobs")
        with self._alone(cluster, "jobs"):
            self._admit_jobs(cluster, table)
            days = by_day(table, "submit_time")
            return sum(self.write_jobs_of_day(cluster, day, part) for day, part in days)

    def write_jobs_of_day(self, cluster: str, day: date, jobs: pa.Table) -> bool:
        """Merge jobs (JOB_SCHEMA) that were all submitted on one UTC day; whether the file changed."""
        with self._alone(cluster, "jobs"):
            self._admit_jobs(cluster, jobs)
            older = self._files.read_day("jobs", cluster, day)
            merged = merge_jobs(JOB_SCHEMA.empty_table() if older is None else older, jobs)
            return self._files.replace_day("jobs", cluster, day, older, merged)

    def _admit_jobs(self, cluster: str, jobs: pa.Table) -> None:
        names = jobs.column("source_file").unique().to_pylist()
        self.writes.admit(cluster, logs_of_rows(names), f"jobs of {', '.join(sorted(names)[:3])}")

    def delete_jobs(self, cluster: str, keys: pa.Table | pd.DataFrame) -> int:
        """Take the jobs with these keys (columns job_id, submit_time) out of the lake; the number taken
        out.
        """
        key_schema = pa.schema([JOB_SCHEMA.field("job_id"), JOB_SCHEMA.field("submit_time")])
        wanted = conform(keys, key_schema, what="table of keys")
        removed = 0
        with self._alone(cluster, "jobs"):
            for day, part in by_day(wanted, "submit_time"):
                table = self._files.read_day("jobs", cluster, day)
                if table is None:
                    continue
                groups = group_by_key(pa.concat_tables([part, table.select(key_schema.names)]))
                keep = ~np.isin(groups[part.num_rows :], groups[: part.num_rows])
                removed += int((~keep).sum())
                self._files.replace_day("jobs", cluster, day, table, table.filter(pa.array(keep)))
        return removed

    def iter_jobs(self, cluster: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """All jobs, one table a day of submission, in order; for tables larger than memory."""
        return self._days.iterate("jobs", cluster, "submit_time", None, None, columns)

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
        return self._days.read("jobs", cluster, "submit_time", start, end, columns)

    # Throughput ----------------------------------------------------------------------------------------

    def write_throughput(self, cluster: str, bins: pa.Table | pd.DataFrame) -> int:
        """Merge bins into the lake; published bins stand above derived ones; the number of files that
        changed.
        """
        table = self._files.own(bins, cluster, "throughput")
        with self._alone(cluster, "throughput"):
            if pc.any(pc.equal(table.column("origin"), "published")).as_py():
                self.writes.admit(cluster, LogOrigin.REAL, "published throughput")
            return self._days.merge("throughput", cluster, by_day(table, "bin_start"), merge_throughput)

    def replace_derived_throughput(self, cluster: str, bins: pa.Table) -> int:
        """Write a whole derived series: like `write_throughput`, and derived days outside of it disappear."""
        days = {day for day, _ in by_day(bins, "bin_start")}
        with self._alone(cluster, "throughput"):
            changed = self.write_throughput(cluster, bins)
            for day in self.dates(cluster, "throughput"):
                older = self._files.read_day("throughput", cluster, day) if day not in days else None
                if older is not None:
                    published = older.filter(pc.equal(older.column("origin"), "published"))
                    changed += self._files.replace_day("throughput", cluster, day, older, published)
        return changed

    def delete_throughput(self, cluster: str, keys: pa.Table | pd.DataFrame) -> int:
        """Take the bins with these starts (column bin_start) out of the lake; the number taken out."""
        removed = 0
        wanted = conform(keys, pa.schema([THROUGHPUT_SCHEMA.field("bin_start")]), what="table of keys")
        with self._alone(cluster, "throughput"):
            for day, part in by_day(wanted, "bin_start"):
                table = self._files.read_day("throughput", cluster, day)
                if table is None:
                    continue
                keep = pc.invert(pc.is_in(table.column("bin_start"), value_set=part.column("bin_start")))
                removed += table.num_rows - (pc.sum(keep).as_py() or 0)
                self._files.replace_day("throughput", cluster, day, table, table.filter(keep))
        return removed

    def read_throughput(
        self, cluster: str, start: datetime | None = None, end: datetime | None = None
    ) -> pd.DataFrame:
        """The bins that start in [start, end), by time. Raises NotFoundError when there are none of the
        cluster.
        """
        return self._days.read("throughput", cluster, "bin_start", start, end, None)

    # Metrics of jobs -----------------------------------------------------------------------------------

    def write_job_metrics(self, cluster: str, metrics: pa.Table | pd.DataFrame) -> int:
        """Merge rows of JOB_METRICS_SCHEMA by job, origin and day (`merge_metrics`); the number of files that
        changed.
        """
        table = self._files.own(metrics, cluster, "metrics")
        check_origins(table)
        with self._alone(cluster, "metrics"):
            days = by_day(table, "known_time", before=True)
            return self._days.merge("metrics", cluster, days, merge_metrics)

    def read_job_metrics(self, cluster: str, known_until: datetime | None = None) -> pd.DataFrame:
        """The metrics of jobs that were known at a moment (default: all), day by day; empty without any."""

        def read() -> list[pa.Table | None]:
            writes = self.writes.check_readable(cluster, "metrics")
            days = self._files.partitions("metrics", cluster)
            tables = [self._files.read_file("metrics", cluster, days[day]) for day in sorted(days)]
            self.writes.check_unchanged(cluster, "metrics", writes)
            return tables

        tables = [each for each in unchanged(read) if each is not None]
        table = pa.concat_tables([JOB_METRICS_SCHEMA.empty_table(), *tables])
        if known_until is not None:
            moment = pa.scalar(as_instant(known_until), table.schema.field("known_time").type)
            table = table.filter(pc.less_equal(table.column("known_time"), moment))
        return to_frame(table)

    # States of nodes -----------------------------------------------------------------------------------

    def write_node_states(self, cluster: str, counts: pa.Table | pd.DataFrame) -> int:
        """Merge counts of nodes into the lake (`merge_node_states`), gaps held (`hold_gaps`) as the lake's
        last count before them says; the number of files that changed.
        """
        table = self._files.own(counts, cluster, "node_states")
        with self._alone(cluster, "node_states"):
            if pc.any(pc.not_equal(table.column("origin"), DERIVED)).as_py():
                self.writes.admit(cluster, LogOrigin.REAL, "counts of nodes")
            older = self._files.partitions("node_states", cluster)
            first = pc.min(table.column("time")).as_py()
            before = [day for day in older if first is not None and day <= first.date()]
            last_day = self._files.read_day("node_states", cluster, max(before)) if before else None
            days = by_day(hold_gaps(table, before=last_day), "time")
            return self._days.merge("node_states", cluster, days, merge_node_states)

    def read_node_states(
        self, cluster: str, start: datetime | None = None, end: datetime | None = None
    ) -> pd.DataFrame:
        """The counts of nodes in [start, end), by time. Raises NotFoundError when there are none of the
        cluster.
        """
        return self._days.read("node_states", cluster, "time", start, end, None)

    # Tables of parts -----------------------------------------------------------------------------------

    def write_series(self, table: str, cluster: str, rows: pa.Table | pd.DataFrame) -> int:
        """Merge rows of a table that a part brings (`day_tables`); the number of files that changed."""
        kind = day_table(table)
        own = self._files.own(rows, cluster, table)
        with self._alone(cluster, table):
            for logs in kind.logs_of(own):
                self.writes.admit(cluster, logs, kind.what)
            return self._days.merge(table, cluster, by_day(own, kind.time), kind.merge)

    def read_series(
        self, table: str, cluster: str, start: datetime | None = None, end: datetime | None = None
    ) -> pd.DataFrame:
        """The rows of such a table in [start, end), by time. Raises NotFoundError when there are none of the
        cluster, and as `day_table`.
        """
        return self._days.read(table, cluster, day_table(table).time, start, end, None)

    # Quarantine ----------------------------------------------------------------------------------------

    def add_quarantine(self, cluster: str, origin: str, rows: pa.Table | pd.DataFrame) -> bool:
        """Add refused rows under the name of their origin (letters, digits, '.', '_', '-'); whether it
        changed.

        A row that is there already (same reason, column, row number and text) is not added twice.
        """
        return self.add_quarantine_parts(
            cluster, origin, [conform(rows, REFUSED_SCHEMA, what="refused rows")]
        )

    def add_quarantine_parts(self, cluster: str, origin: str, tables: Iterable[pa.Table]) -> bool:
        """Add refused rows (REFUSED_SCHEMA), one table after another; whether any file changed."""
        with self._alone(cluster, "quarantine"):
            return self._quarantine.add(cluster, origin, tables)

    def read_quarantine(self, cluster: str) -> pd.DataFrame:
        """All refused rows of a cluster; an empty frame when there are none."""
        self.writes.check_readable(cluster, "quarantine")
        return to_frame(self._quarantine.read(cluster))

    def quarantined_by_reason(self, cluster: str, samples: int) -> list[ReasonOfRows]:
        """How many rows each reason refused, the most first, each with its first few rows."""
        self.writes.check_readable(cluster, "quarantine")
        return self._quarantine.by_reason(cluster, samples)

    # Nodes ---------------------------------------------------------------------------------------------

    def write_nodes(self, cluster: str, nodes: pa.Table | pd.DataFrame) -> bool:
        """Write a table of nodes (NODES_SCHEMA, optional date); whether the file changed.

        Undated rows replace all undated rows; dated rows replace the rows of the same day.
        """
        path = f"{self._files.folder('nodes', cluster)}/{PART}"
        merged = newer = self._files.own(nodes, cluster, "nodes")
        with self._alone(cluster, "nodes"):
            older = self._files.read_file("nodes", cluster, path)
            if older is not None:
                replaced = pc.is_in(older.column("date"), value_set=pc.unique(newer.column("date")))
                merged = pa.concat_tables([older.filter(pc.invert(replaced)), newer])
            merged = merged.sort_by([("date", "ascending"), ("virtual_cluster", "ascending")])
            return self._files.replace_file("nodes", cluster, path, older, merged)

    def read_nodes(self, cluster: str, day: date | None = None) -> pd.DataFrame:
        """The nodes on a day (default: the last known): virtual_cluster, nodes, gpus_per_node, and what is
        known of `cluster_logs.node_table.NODE_FACTS`.

        Undated counts hold on every day that has no dated ones before it. A virtual cluster with zero nodes
        on the day is left out. Raises NotFoundError when there are none.
        """
        table = self._read_nodes_file(cluster)
        if table is None:
            raise self._days.not_found("nodes", cluster)
        frame = to_frame(table.drop_columns(["cluster", "date"]))
        frame["date"] = pd.Series(table.column("date").to_pylist(), dtype=object)
        dated = [held for held in frame["date"].dropna().unique() if day is None or held <= day]
        in_force = frame[frame["date"] == max(dated)] if dated else frame[frame["date"].isna()]
        in_force = in_force.loc[in_force["nodes"] > 0].drop(columns="date")
        return without_unknown_facts(in_force.reset_index(drop=True))

    def node_dates(self, cluster: str) -> list[date]:
        """The days from which dated node counts hold, in order; none when all are undated or missing."""
        table = self._read_nodes_file(cluster)
        days = [] if table is None else table.column("date").to_pylist()
        return sorted({day for day in days if day is not None})

    def _read_nodes_file(self, cluster: str) -> pa.Table | None:
        self.writes.check_readable(cluster, "nodes")
        return self._files.read_file("nodes", cluster, f"{self._files.folder('nodes', cluster)}/{PART}")
