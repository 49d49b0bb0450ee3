"""Taking out of a lake: a cluster with all that was made of its rows there, or what is past its age.

Past their age are days of the log's tables, files of refused rows, and work files. A day's age counts from
the newest day of its table, so that an old log stays; a file's age from when it was last written. What is of
a table changes as any write does: one writer at a time, and readers that had begun read again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow.fs as pafs

from cluster_logs.cluster_writes import RECORDS
from cluster_logs.day_tables import day_tables
from cluster_logs.lake import Lake
from cluster_logs.lake_files import SCHEMAS, LakeFiles, count_rows
from foundation.errors import NotFoundError
from foundation.outside_names import check_cluster_name
from foundation.parts import installed_parts
from foundation.progress import Progress, silent
from foundation.storage import list_files, locate

_OWN_TABLES = ("jobs", "throughput", "node_states", "metrics")
# What steps work with, beside the tables: made again from them when it is asked for again.
WORK_FOLDERS = ("sweeps", "tuning", "plans", "staging")
_TASK = "removal of what is past its retention"


# Rows are counted where a folder holds nothing but one table.
def _counted() -> tuple[str, ...]:
    return (*SCHEMAS, *day_tables())


@dataclass(frozen=True)
class Holdings:
    """What a lake holds of a cluster: rows of each table, files of each folder (tables, profiles, studies,
    pages, staged accounting).
    """

    cluster: str
    rows: dict[str, int]
    files: dict[str, int]

    def in_words(self) -> str:
        """`1,000 rows of jobs, 3 rows of nodes, in 12 files of jobs, nodes, profiles`."""
        rows = ", ".join(f"{count:,} rows of {table}" for table, count in self.rows.items() if count)
        files = f"{sum(self.files.values()):,} files of {', '.join(self.files)}"
        return f"{rows}, in {files}" if rows else files


def holdings(lake_uri: str, cluster: str) -> Holdings:
    """Count what a lake holds of a cluster. Raises NotFoundError when there is nothing."""
    fs, root = locate(lake_uri)
    rows: dict[str, int] = {}
    files: dict[str, int] = {}
    for name, folder in _folders(fs, root.rstrip("/"), check_cluster_name(cluster)):
        inside = list_files(fs, folder)
        files[name] = len(inside)
        if name in _counted():
            rows[name] = sum(_count_rows(fs, info.path) for info in inside if info.path.endswith(".parquet"))
    if not any(files.values()):
        cluster_names = ", ".join(Lake(lake_uri).clusters()) or "none"
        raise NotFoundError(
            f"The lake {lake_uri} holds nothing of cluster {cluster!r}.",
            remedy=f"Clusters with jobs: {cluster_names}.",
        )
    return Holdings(cluster, rows, files)


def remove_cluster(
    lake_uri: str, cluster: str, *, wait_s: float | None = None, progress: Progress = silent
) -> Holdings:
    """Delete all that a lake holds of a cluster, also a half-written one; returns what it was.

    Other clusters are left alone. The cluster's record goes last: if this ends in between, readers refuse
    what is left, and removing it again goes on. Raises NotFoundError when there is nothing, ClusterBusyError
    while another process writes the cluster.
    """
    lake = Lake(lake_uri, wait_s=wait_s)
    fs, root = locate(lake_uri)
    held = holdings(lake_uri, cluster)
    with lake.writing(cluster, f"removal of {cluster}", tuple(held.files), progress=progress, over=True):
        held = holdings(lake_uri, cluster)
        folders = [one for one in _folders(fs, root.rstrip("/"), cluster) if one[0] != RECORDS]
        for done, (name, folder) in enumerate(folders):
            progress(done, len(folders), f"removing {name}")
            lake.writes.changing(cluster, name)
            fs.delete_dir(folder)
        lake.writes.forget(cluster)
    return held


def _count_rows(fs: pafs.FileSystem, path: str) -> int:
    try:
        return count_rows(fs, path)
    except FileNotFoundError:  # it was listed, and another process removed it since
        return 0


def _folders(fs: pafs.FileSystem, root: str, cluster: str) -> list[tuple[str, str]]:
    """Name and path of each folder of the lake that is the cluster's alone, by name."""
    tops = fs.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    own = [(info.base_name, f"{info.path}/cluster={cluster}") for info in tops]
    return sorted(
        (name, path) for name, path in own if fs.get_file_info(path).type == pafs.FileType.Directory
    )


# What is past its age -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expired:
    """How many files or folders stay and go, and the bytes of those that go."""

    kept: int = 0
    removed: int = 0
    freed_bytes: int = 0

    def __add__(self, other: "Expired") -> "Expired":
        return Expired(
            self.kept + other.kept, self.removed + other.removed, self.freed_bytes + other.freed_bytes
        )


def lake_clusters(lake_uri: str) -> list[str]:
    """The clusters of which a lake has any folder, by name."""
    fs, root = locate(lake_uri)
    tops = fs.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    folders = [top.path for top in tops if top.type == pafs.FileType.Directory]
    below = [info for folder in folders for info in fs.get_file_info(pafs.FileSelector(folder))]
    return sorted({info.base_name[8:] for info in below if info.base_name.startswith("cluster=")})


def expire_days(lake_uri: str, cluster: str, *, keep_days: float, dry_run: bool) -> Expired:
    """Remove the days of each table that lie more than `keep_days` before its newest.

    Raises ClusterBusyError while another process writes the cluster, HalfWrittenError where one died.
    """
    files, total = LakeFiles(lake_uri), Expired()
    for table in (*_OWN_TABLES, *day_tables()):
        days = files.partitions(table, cluster)
        first = max(days, default=None)
        old = sorted(day for day in days if first and day < first - timedelta(days=keep_days))
        paths = [files.folder(table, cluster, day) for day in old]
        total += Expired(kept=len(days) - len(old)) + _remove(lake_uri, cluster, table, paths, dry_run)
    return total


def expire_quarantine(lake_uri: str, cluster: str, *, before: datetime, dry_run: bool) -> Expired:
    """Remove the files of refused rows that nothing was added to since `before`; errors as `expire_days`."""
    files = LakeFiles(lake_uri)
    there = list_files(files.fs, files.folder("quarantine", cluster))
    old = [info.path for info in there if _moment(info) < before]
    kept = Expired(kept=len(there) - len(old))
    return kept + _remove(lake_uri, cluster, "quarantine", old, dry_run)


def expire_work_files(lake_uri: str, cluster: str, *, before: datetime, dry_run: bool) -> Expired:
    """Remove the sweeps, searches, replayed plans and staged files of which nothing was written since
    `before`.
    """
    fs, root = locate(lake_uri)
    total = Expired()
    of_parts = [folder for part in installed_parts() for folder in part.work_folders]
    for name in (*WORK_FOLDERS, *of_parts):
        folder = f"{root.rstrip('/')}/{name}/cluster={cluster}"
        for unit in fs.get_file_info(pafs.FileSelector(folder, allow_not_found=True)):
            files = list(_files(fs, unit))
            newest = max((_moment(info) for info in files), default=_moment(unit))
            if newest >= before:
                total += Expired(kept=1)
                continue
            total += Expired(removed=1, freed_bytes=sum(info.size or 0 for info in files))
            if not dry_run:
                _delete(fs, unit)
    return total


def _remove(lake_uri: str, cluster: str, table: str, paths: list[str], dry_run: bool) -> Expired:
    if not paths:
        return Expired()
    fs, _ = locate(lake_uri)
    units = fs.get_file_info(paths)
    freed_bytes = sum(info.size or 0 for unit in units for info in _files(fs, unit))
    if not dry_run:
        lake = Lake(lake_uri)
        with lake.writing(cluster, _TASK, (table,)):
            for unit in units:
                lake.writes.changing(cluster, table)
                _delete(fs, unit)
    return Expired(removed=len(paths), freed_bytes=freed_bytes)


def _files(fs: pafs.FileSystem, unit: pafs.FileInfo) -> Iterator[pafs.FileInfo]:
    if unit.type == pafs.FileType.File:
        yield unit
    elif unit.type == pafs.FileType.Directory:
        inside = fs.get_file_info(pafs.FileSelector(unit.path, recursive=True))
        yield from (info for info in inside if info.type == pafs.FileType.File)


def _delete(fs: pafs.FileSystem, unit: pafs.FileInfo) -> None:
    if unit.type == pafs.FileType.Directory:
        fs.delete_dir(unit.path)
    elif unit.type == pafs.FileType.File:
        fs.delete_file(unit.path)


def _moment(info: pafs.FileInfo) -> datetime:
    """When it was last written; object stores have no moment for a folder: then it is not old."""
    moment: datetime | None = info.mtime
    return datetime.max.replace(tzinfo=UTC) if moment is None else moment.astimezone(UTC)
