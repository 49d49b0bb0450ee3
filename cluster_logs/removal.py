"""Taking a cluster out of a lake: its rows, and all that was made of them there."""

from dataclasses import dataclass

import pyarrow.fs as pafs

from cluster_logs.cluster_names import check_cluster_name
from cluster_logs.cluster_writes import RECORDS
from cluster_logs.day_tables import day_tables
from cluster_logs.lake import Lake
from cluster_logs.lake_files import SCHEMAS, count_rows
from foundation.errors import NotFoundError
from foundation.progress import Progress, silent
from foundation.storage import list_files, locate


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
