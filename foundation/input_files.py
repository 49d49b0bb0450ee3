"""Opening a file that a person has named: only a file is one, and whatever is wrong with it is one sentence.

A pipe, a socket or a device would never answer, or never end; they are refused without being waited for.
"""

import errno
import os

import pyarrow as pa
import pyarrow.fs as pafs

from foundation.disk_errors import disk_error
from foundation.errors import BadInputError, LucidError, NotFoundError
from foundation.input_roots import check_opened
from foundation.regular_files import NotAFileError, open_regular
from foundation.storage import locate

_REMEDIES = {
    errno.EACCES: "Let the account that runs this read it.",
    errno.EPERM: "Let the account that runs this read it.",
    errno.ELOOP: "The symbolic link leads back to itself: name the file it should lead to.",
    errno.ENAMETOOLONG: "No file has so long a name: check the path.",
    errno.ENXIO: "Write what it delivers into a file, and name that.",
}


def open_input(uri: str) -> pa.NativeFile:
    """Open a file (a path or a URI) for reading; it can seek and knows its size.

    Raises NotFoundError for an absent one; BadInputError for what is no file (a folder, a pipe, a device),
    for one that may not be read, and for a name that no file can have.
    """
    try:
        return open_located(*locate(uri))
    except OSError as error:
        raise _unopened(uri, error) from error
    except (ValueError, RuntimeError) as error:  # a NUL in the name, a home of an unknown user
        raise BadInputError(f"{shown(uri)!r} names no file: {error}.", remedy="Check the path.") from error


def read_input(uri: str, *, most_bytes: int | None = None) -> bytes:
    """Return a small file's content; raises as `open_input`, and BadInputError above `most_bytes`."""
    with open_input(uri) as file:
        if most_bytes is not None and file.size() > most_bytes:
            raise BadInputError(
                f"{shown(uri)} has {file.size():,} bytes, more than the {most_bytes:,} that are read.",
                remedy="Is it the right file?",
            )
        try:
            content: bytes = file.read()
        except OSError as error:
            raise _unopened(uri, error) from error
        return content


def open_located(fs: pafs.FileSystem, path: str) -> pa.NativeFile:
    """Open what `locate` has found.

    Raises BadInputError for what is no longer in a place that may be read from, OSError for what is no file
    and for what the operating system refuses.
    """
    return _open_local(path) if isinstance(fs, pafs.LocalFileSystem) else _open_elsewhere(fs, path)


def shown(name: str) -> str:
    """Return a path as it can be printed and stored: bytes that are not UTF-8 are spelt out."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _open_local(path: str) -> pa.NativeFile:
    file = open_regular(path)
    try:
        check_opened(file.fileno())  # what was opened, not its name alone, is in a place that may be read
    except BaseException:
        file.close()
        raise
    return pa.PythonFile(file, mode="r")


def _open_elsewhere(fs: pafs.FileSystem, path: str) -> pa.NativeFile:
    kind = fs.get_file_info(path).type
    if kind == pafs.FileType.NotFound:
        raise FileNotFoundError(errno.ENOENT, "not found", path)
    if kind == pafs.FileType.Directory:
        raise NotAFileError(path, "a folder")
    return fs.open_input_file(path)


def _unopened(uri: str, error: OSError) -> LucidError:
    if isinstance(error, NotAFileError):
        remedy = (
            "Name one file."
            if error.kind == "a folder"
            else "Write what it delivers into a file, and name that."
        )
        return BadInputError(f"{shown(uri)} is {error.strerror}.", remedy=remedy)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotFoundError(f"There is no file {shown(uri)}.", remedy="Check the path.")
    if error.errno in _REMEDIES:
        reason = os.strerror(error.errno)
        return BadInputError(f"{shown(uri)} cannot be opened: {reason}.", remedy=_REMEDIES[error.errno])
    return disk_error(error) or BadInputError(
        f"{shown(uri)} cannot be read: {error.strerror or error}.", remedy="Check the path and the disk."
    )
