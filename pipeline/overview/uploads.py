"""Files that people upload for an ingest: kept for some days in a folder that the ingest may read.

A file's name is its content's digest and what is left of the name that it had: the same file twice is one
file, and its rows name the same source. A file that was half sent is not there.
"""

import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from foundation.disk_errors import disk_error
from foundation.errors import BadInputError
from foundation.private_files import private_folder
from foundation.process_lock import held, sweep

MOST_BYTES = 2**30
MOST_BYTES_TOGETHER = 8 * 2**30
KEPT_DAYS = 14
_LONGEST_NAME = 60
_UNFINISHED = ".unfinished-"


@dataclass(frozen=True)
class Upload:
    """A file that was uploaded: where it lies, and until when (ISO, UTC) it stays."""

    path: str
    size_bytes: int
    kept_until: str


class UnfinishedUpload:
    """A file that is being sent, piece by piece."""

    def __init__(self, folder: Path, name: str, scratch: Path, stream: BinaryIO, room_bytes: int) -> None:
        self._folder, self._name = folder, name
        self._scratch, self._stream = scratch, stream
        self._room_bytes = room_bytes
        self._digest = hashlib.sha256()
        self._size_bytes = 0

    def write(self, piece: bytes) -> None:
        """Add a piece. Raises BadInputError when the file becomes too large, DiskError for a full disk."""
        self._size_bytes += len(piece)
        check_size(self._size_bytes)
        if self._size_bytes > self._room_bytes:
            raise BadInputError(
                f"The uploads of the last {KEPT_DAYS} days take {MOST_BYTES_TOGETHER // 2**30} GiB already.",
                remedy="Put the file on the server, and give its path.",
            )
        self._digest.update(piece)
        try:
            self._stream.write(piece)
        except OSError as error:
            raise disk_error(error) or error from error

    def keep(self) -> Upload:
        """End it: the file is there, whole. Raises BadInputError for one without content."""
        if not self._size_bytes:
            raise BadInputError("The file is empty.", remedy="Check how it was exported.")
        self._stream.flush()
        path = self._folder / f"{self._digest.hexdigest()[:12]}-{_plain_name(self._name)}"
        self._scratch.replace(path)
        until = datetime.now(UTC) + timedelta(days=KEPT_DAYS)
        return Upload(str(path), self._size_bytes, until.isoformat(timespec="seconds"))


@contextmanager
def receiving(folder: Path, name: str) -> Iterator[UnfinishedUpload]:
    """Receive a file that is called `name` where it comes from; without `keep` nothing stays of it.

    What is older than KEPT_DAYS is removed first.
    """
    private_folder(folder)
    kept_bytes = sum(file.stat().st_size for file in _current_files(folder))
    scratch = folder / f"{_UNFINISHED}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise disk_error(error) or error from error
    try:
        with os.fdopen(handle, "wb") as stream, held(scratch):
            yield UnfinishedUpload(folder, name, scratch, stream, MOST_BYTES_TOGETHER - kept_bytes)
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def check_size(size_bytes: int) -> None:
    """Raise BadInputError for a file that is larger than an upload may be."""
    if size_bytes > MOST_BYTES:
        raise BadInputError(
            f"The file has more than {MOST_BYTES // 2**20:,} MiB, which is the most that can be uploaded.",
            remedy="Compress it with gzip, or put it on the server and give its path.",
        )


def _current_files(folder: Path) -> list[Path]:
    """The files that stay; those that are too old, or were left half-sent, are removed."""
    sweep(folder.glob(f"{_UNFINISHED}*"))
    oldest_s = time.time() - KEPT_DAYS * 86_400
    current = []
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # another upload has removed it
            if file.name.startswith(_UNFINISHED):
                current.append(file)
            elif file.stat().st_mtime < oldest_s:
                file.unlink()
            else:
                current.append(file)
    return current


def _plain_name(name: str) -> str:
    """The end of a name, of letters that no path or shell gives a meaning."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[-_LONGEST_NAME:]
