"""Who may read a lake on a local disk: jobs' names and users' are for its owner and its group.

Files are made 0640 and folders 0750, less what the umask takes. LUCID_LAKE_MODE gives the files' mode exactly
(octal, such as 0660 where a group's members write), and folders may be entered by who may read. What is there
already keeps its mode.
"""

import os
from pathlib import Path

from foundation.errors import BadInputError

MODE_VARIABLE = "LUCID_LAKE_MODE"
_DEFAULT_MODE = 0o640


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing. Raises OSError, BadInputError for the setting."""
    mode, exact = _mode()
    mode |= (mode & 0o444) >> 2  # who may read it may enter it
    for folder in reversed([each for each in (path, *path.parents) if not each.exists()]):
        try:
            folder.mkdir(mode=mode)
        except FileExistsError:  # another process was faster
            continue
        if exact:
            folder.chmod(mode)


def make_file(path: Path) -> None:
    """Make an empty file, unless it is there. Raises OSError, BadInputError for the setting."""
    mode, exact = _mode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    except FileExistsError:
        return
    try:
        if exact:
            os.fchmod(handle, mode)
    finally:
        os.close(handle)


def _mode() -> tuple[int, bool]:
    """The mode of files, and whether it holds whatever the umask."""
    text = os.environ.get(MODE_VARIABLE, "").strip()
    if not text:
        return _DEFAULT_MODE, False
    try:
        mode = int(text, 8)
    except ValueError:
        mode = 0
    # Its owner has to read and write it, and nothing in it is to be run.
    if mode & 0o600 != 0o600 or mode & ~0o666:
        raise BadInputError(
            f"{MODE_VARIABLE}={text!r} is no mode of files that their owner reads and writes.",
            remedy="Set it to one in octal, such as 0640 or 0660.",
        )
    return mode, True
