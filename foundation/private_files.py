"""Folders and databases that only their owner may read: jobs' names and users', secrets, models.

SQLite makes a database readable by all, and its journals like it; `mkdir(parents=True, mode=...)` gives the
mode to the last folder alone.
"""

import contextlib
import os
from pathlib import Path

PRIVATE_UMASK = 0o077


def private_folder(path: Path, *, tighten: bool = True) -> Path:
    """Make a folder, and those above it that are missing, for the owner only; return it.

    One that is there already and ours is closed to others too if `tighten`: for folders that hold nothing but
    our own.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if tighten:
        _tighten(path)
    return path


def private_database(path: Path) -> Path:
    """Return the path of an SQLite database that is, or will be, its owner's alone."""
    with contextlib.suppress(OSError):  # it is there, or cannot be: then SQLite says why
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    for file in (path, *(path.with_name(path.name + more) for more in ("-wal", "-shm", "-journal"))):
        _tighten(file)
    return path


def _tighten(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        status = path.stat()
        if status.st_uid == os.geteuid() and status.st_mode & 0o077:
            path.chmod(status.st_mode & 0o700)
