"""Files of lines that are only appended to: what a crash or a full disk cut off swallows nothing else."""

import os
from collections.abc import Iterable
from pathlib import Path

from foundation.private_files import private_folder


def append_lines(path: Path, lines: Iterable[str], *, for_good: bool = True) -> int:
    """Append lines (without their ends) in one piece, readable by the owner only; return the file's size.

    `for_good`: they are on the disk when this returns. Raises OSError; a part may have been written then,
    which the next call keeps apart from its own lines.
    """
    text = "".join(f"{line}\n" for line in lines)
    private_folder(path.parent, tighten=False)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(handle).st_size
        if text and size and os.pread(handle, 1, size - 1) != b"\n":
            text = "\n" + text
        unwritten = text.encode()
        while unwritten:
            unwritten = unwritten[os.write(handle, unwritten) :]
        if for_good:
            os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)
