"""Opening a file that a person has named: only a file is one, and whatever is wrong with it is one sentence.

A pipe, a socket or a device would never answer, or never end; they are refused without being waited for.
"""

import errno
import os
import stat

import pyarrow as pa
import pyarrow.fs as pafs

from cluster_logs.disk_errors import disk_error
from cluster_logs.errors import BadInputError, LucidError, NotFoundError
from cluster_logs.input_roots import check_opened
from cluster_logs.storage import locate

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
        return open_located(*locate(uri), uri)
    except OSError as error:
        raise _unopened(uri, error) from error
    except (ValueError, RuntimeError) as error:  # a NUL in the name, a home of nobody
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


def open_located(fs: pafs.FileSystem, path: str, uri: str) -> pa.NativeFile:
    """Open what `locate` said of `uri`.

    Raises BadInputError for what is no file, or no longer in a place that may be read from; OSError for what
    the operating system refuses.
    """
    return _open_local(path, uri) if isinstance(fs, pafs.LocalFileSystem) else _open_elsewhere(fs, path, uri)


def shown(name: str) -> str:
    """Return a path as it can be printed and stored: bytes that are not UTF-8 are spelt out."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _open_local(path: str, uri: str) -> pa.NativeFile:
    # Without O_NONBLOCK opening a pipe waits for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_opened(descriptor)  # what was opened, not its name alone, is in a place that may be read
        _check_kind(os.fstat(descriptor).st_mode, uri)
        return pa.PythonFile(os.fdopen(descriptor, "rb", buffering=0), mode="r")
    except BaseException:
        os.close(descriptor)
        raise


def _open_elsewhere(fs: pafs.FileSystem, path: str, uri: str) -> pa.NativeFile:
    kind = fs.get_file_info(path).type
    if kind == pafs.FileType.NotFound:
        raise FileNotFoundError(errno.ENOENT, "not found", path)
    if kind == pafs.FileType.Directory:
        _check_kind(stat.S_IFDIR, uri)
    return fs.open_input_file(path)


def _check_kind(mode: int, uri: str) -> None:
    if stat.S_ISDIR(mode):
        raise BadInputError(f"{shown(uri)} is a folder, not a file.", remedy="Name one file.")
    if not stat.S_ISREG(mode):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise BadInputError(
            f"{shown(uri)} is a {kind}, not a file.",
            remedy="Write what it delivers into a file, and name that.",
        )


def _unopened(uri: str, error: OSError) -> LucidError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotFoundError(f"There is no file {shown(uri)}.", remedy="Check the path.")
    if error.errno in _REMEDIES:
        reason = os.strerror(error.errno)
        return BadInputError(f"{shown(uri)} cannot be opened: {reason}.", remedy=_REMEDIES[error.errno])
    return disk_error(error) or BadInputError(
        f"{shown(uri)} cannot be read: {error.strerror or error}.", remedy="Check the path and the disk."
    )
