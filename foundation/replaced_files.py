"""Small files that are written whole or not at all, for their owner only unless said otherwise.

Needs the standard library alone, so that the light client can use it.
"""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from foundation.process_lock import held

PRIVATE_MODE = 0o600


def replace_file(
    path: Path, content: bytes | str | Iterable[str], *, mode: int = PRIVATE_MODE, durable: bool = False
) -> None:
    """Put a file in the place of another in one step; a reader sees the old or the new one. Raises OSError.

    `durable`: it, and its name, are on the disk when this returns.
    """
    with _scratch(path, content, mode, durable) as scratch:
        scratch.replace(path)
    if durable:
        sync_folder(path.parent)


def create_file(path: Path, content: bytes | str, *, mode: int = PRIVATE_MODE) -> bool:
    """Make a file that must not be there; say whether it was made, or another process was first.

    No process ever reads half of it. Raises OSError.
    """
    with _scratch(path, content, mode, durable=True) as scratch:
        try:
            os.link(scratch, path)
        except FileExistsError:
            return False
    return True


def write_durably(path: Path, payload: bytes) -> None:
    """Write a file that is not read yet, and wait until it is on the disk. Raises OSError."""
    with path.open("wb") as stream:
        stream.write(payload)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until a folder's names are on the disk. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _scratch(path: Path, content: bytes | str | Iterable[str], mode: int, durable: bool) -> Iterator[Path]:
    scratch = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with held(scratch):
            with os.fdopen(handle, "wb") as stream:
                os.fchmod(handle, mode)  # whatever the umask
                for part in [content] if isinstance(content, bytes | str) else content:
                    stream.write(part if isinstance(part, bytes) else part.encode())
                stream.flush()
                if durable:
                    os.fsync(handle)
            yield scratch
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
