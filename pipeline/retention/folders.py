"""Folders of pages and of tasks' logs that are past their age."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from cluster_logs.removal import Expired
from foundation.parts import hooks
from pipeline.kept_reports import MOST_LISTED

# Below the state folder, beside those of parts: KIND/CLUSTER/STAMP/, each a page with its pictures.
PAGE_FOLDERS = ("monitoring", "plans")


def expire_pages(state_dir: Path, *, before: datetime, dry_run: bool) -> Expired:
    """Remove the pages of a cluster that were last written before a moment; those of an index's list stay."""
    total = Expired()
    for kind in (*PAGE_FOLDERS, *(pages.kind for _, pages in hooks("pages"))):
        for cluster in _folders(state_dir / kind):
            newest_first = sorted(_folders(cluster), key=_written_s, reverse=True)
            listed, rest = newest_first[:MOST_LISTED], newest_first[MOST_LISTED:]
            total += Expired(kept=len(listed)) + _expire(rest, before, dry_run)
    return total


def expire_task_logs(log_dir: Path, *, before: datetime, dry_run: bool) -> Expired:
    """Remove Airflow's logs of runs, and of the DAG processor's days, last written before a moment."""
    runs = [run for dag in _folders(log_dir, "dag_id=*") for run in _folders(dag, "run_id=*")]
    total = _expire([*runs, *_folders(log_dir / "dag_processor")], before, dry_run)
    for dag in _folders(log_dir, "dag_id=*") if not dry_run else ():
        if not any(dag.iterdir()):  # of a DAG that is no more
            dag.rmdir()
    return total


def folder_bytes(folder: Path) -> int:
    """The sizes of all files below a folder."""
    return sum(status.st_size for status in _files_below(folder))


def _files_below(folder: Path) -> Iterator[os.stat_result]:
    """Of each file below a folder what the disk says of it; one that vanishes meanwhile is left out."""
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                yield (Path(place) / name).lstat()


def _folders(folder: Path, pattern: str = "*") -> list[Path]:
    """The folders in a folder; links, such as `latest`, are none."""
    return sorted(path for path in folder.glob(pattern) if path.is_dir() and not path.is_symlink())


def _written_s(folder: Path) -> float:
    """When anything below a folder was last written (Unix time)."""
    return max((status.st_mtime for status in _files_below(folder)), default=folder.lstat().st_mtime)


def _expire(folders: Iterable[Path], before: datetime, dry_run: bool) -> Expired:
    total = Expired()
    for folder in folders:
        if _written_s(folder) >= before.timestamp():
            total += Expired(kept=1)
            continue
        total += Expired(removed=1, freed_bytes=folder_bytes(folder))
        if not dry_run:
            shutil.rmtree(folder, ignore_errors=True)
    return total
