"""Taking out of a lake what is past its age: days of the log's tables, files of refused rows, work files.

A day's age counts from the newest day of its table, so that an old log stays; a file's age from when it was
last written. What is of a table changes as any write does: one writer at a time, and readers that had begun
are told to read again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow.fs as pafs

from cluster_logs.day_tables import day_tables
from cluster_logs.lake import Lake
from cluster_logs.lake_files import LakeFiles
from foundation.parts import installed_parts
from foundation.storage import list_files, locate

_OWN_TABLES = ("jobs", "throughput", "node_states", "metrics")
# What steps work with, beside the tables: made again from them when it is asked for again.
WORK_FOLDERS = ("sweeps", "tuning", "plans", "staging")
_TASK = "removal of what is past its retention"


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
