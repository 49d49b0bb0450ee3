"""Files behind a URI: a plain path, file://, s3:// and gs:// (pyarrow), memory:// and whatever else fsspec
knows.

A file is written under a temporary name beside its place and then moved there, so a reader sees the old file
or the new one and never half of one. The move is atomic on a local file system; object stores replace whole
objects anyway. On a local disk jobs' names and users' are for the owner and the group: files are made 0640
and folders 0750, less what the umask takes. LUCID_LAKE_MODE gives the files' mode exactly (octal, such as
0660 where a group's members write), and every account that may read a file may enter its folder. What is
there already keeps its mode.

A file that a user has named is opened by `open_input`: only a file is one, and whatever is wrong with it is
one sentence.
"""

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import fsspec
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from foundation.disk_errors import disk_error
from foundation.errors import BadInputError, LucidError, NotFoundError, ServiceUnavailableError
from foundation.outside_names import NotAFileError, admitted, check_opened, local_path, open_regular
from foundation.process_lock import held, sweep

if TYPE_CHECKING:
    import pandas as pd


# A leading dot keeps Parquet tools from taking a file that is being written for data.
TEMPORARY_PREFIX = ".writing-"
_LONGEST_WRITE_S = 86_400.0
MODE_VARIABLE = "LUCID_LAKE_MODE"
_DEFAULT_MODE = 0o640
_REMEDIES = {
    errno.EACCES: "Let the account that runs this read it.",
    errno.EPERM: "Let the account that runs this read it.",
    errno.ELOOP: "The symbolic link leads back to itself: name the file it should lead to.",
    errno.ENAMETOOLONG: "No file has so long a name: check the path.",
    errno.ENXIO: "Write what it delivers into a file, and name that.",
}


def locate(uri: str) -> tuple[pafs.FileSystem, str]:
    """The file system behind a URI and the path in it.

    `AWS_ENDPOINT_URL` names an object store of one's own for s3://. Raises BadInputError for a scheme that is
    unknown, with the schemes that are known.
    """
    if not uri:
        raise BadInputError("The URI is empty.", remedy="Give a folder, or a URI such as s3://bucket/lake.")
    uri = admitted(uri)
    path = local_path(uri)
    if path is not None:
        return pafs.LocalFileSystem(), path
    scheme = urlsplit(uri).scheme
    try:
        if scheme in ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss"):
            return _arrow_file_system(scheme, uri)
        fs, path = fsspec.core.url_to_fs(uri)
    except (ValueError, ImportError, pa.ArrowException) as error:
        raise BadInputError(
            f"Cannot open {uri!r}: {error}.",
            remedy="Use a path, file://, s3://, gs:// or another fsspec scheme.",
        ) from error
    except OSError as error:
        raise ServiceUnavailableError(f"The storage behind {uri!r} did not answer: {error}.") from error
    return pafs.PyFileSystem(pafs.FSSpecHandler(fs)), path


def _arrow_file_system(scheme: str, uri: str) -> tuple[pafs.FileSystem, str]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if scheme == "s3" and endpoint and "endpoint_override=" not in uri:
        uri = f"{uri}{'&' if '?' in uri else '?'}endpoint_override={quote(endpoint, safe='')}"
    fs, path = pafs.FileSystem.from_uri(uri)
    return fs, path


def write_atomically(fs: pafs.FileSystem, path: str, write: Callable[[pa.NativeFile], None]) -> None:
    """Create or replace one file; after a failure the old file is untouched and no temporary file is left.

    On a local disk its mode is as the module says.
    """
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/{TEMPORARY_PREFIX}{uuid.uuid4().hex[:12]}-{name}"
    if _is_local(fs):
        make_folder(Path(folder))
    else:
        fs.create_dir(folder, recursive=True)
    try:
        if _is_local(fs):
            make_file(Path(temporary))  # what opens it next leaves its mode as it is
        with fs.open_output_stream(temporary) as sink, _held_if_local(fs, temporary):
            write(sink)
        if isinstance(fs, pafs.LocalFileSystem):
            _flush_to_disk(temporary)
        fs.move(temporary, path)
    except BaseException:
        if fs.get_file_info(temporary).type == pafs.FileType.File:
            fs.delete_file(temporary)
        raise


def write_bytes(uri: str, data: bytes) -> None:
    """Create or replace one file in one move."""
    fs, path = locate(uri)
    write_atomically(fs, path, lambda sink: sink.write(data))


def write_parquet(uri: str, table: pa.Table, compression: str = "snappy") -> None:
    """Create or replace one file of a table in one move."""
    fs, path = locate(uri)
    write_atomically(fs, path, partial(pq.write_table, table, compression=compression))


def write_frame(uri: str, frame: "pd.DataFrame", compression: str = "snappy") -> None:
    """Create or replace one Parquet file of a frame without its index, in one move."""
    write_parquet(uri, pa.Table.from_pandas(frame, preserve_index=False), compression)


def read_bytes(uri: str) -> bytes | None:
    """Return a stored file's bytes; None when it is not there."""
    fs, path = locate(uri)
    if fs.get_file_info(path).type != pafs.FileType.File:
        return None
    with fs.open_input_stream(path) as source:
        return bytes(source.read())


def _is_local(fs: pafs.FileSystem) -> bool:
    if isinstance(fs, pafs.PyFileSystem) and isinstance(fs.handler, pafs.FSSpecHandler):
        return isinstance(fs.handler.fs, LocalFileSystem)
    return isinstance(fs, pafs.LocalFileSystem)


def _held_if_local(fs: pafs.FileSystem, path: str) -> contextlib.AbstractContextManager[None]:
    return held(Path(path)) if isinstance(fs, pafs.LocalFileSystem) else contextlib.nullcontext()


def sweep_unfinished(uri: str) -> int:
    """Delete what killed writers left below a URI, and return how many files; what is being written stays.

    Object storage has no locks: there it is what is older than a day.
    """
    fs, folder = locate(uri)
    if isinstance(fs, pafs.LocalFileSystem):
        return len(sweep(Path(folder).rglob(f"{TEMPORARY_PREFIX}*")))
    before_s = time.time() - _LONGEST_WRITE_S
    entries = fs.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True))
    old = [
        each.path
        for each in entries
        if each.base_name.startswith(TEMPORARY_PREFIX) and each.mtime and each.mtime.timestamp() < before_s
    ]
    for path in old:
        fs.delete_file(path)
    return len(old)


def _flush_to_disk(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def list_files(fs: pafs.FileSystem, folder: str) -> list[pafs.FileInfo]:
    """The finished files under a folder, by path; an absent folder holds none."""
    selector = pafs.FileSelector(folder, allow_not_found=True, recursive=True)
    files = [info for info in fs.get_file_info(selector) if info.type == pafs.FileType.File]
    finished = [info for info in files if not info.base_name.startswith(".")]
    return sorted(finished, key=lambda info: info.path)


# Opening what a user has named --------------------------------------------------------------------------


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


# Modes of files and folders on a local disk -----------------------------------------------------------------


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing. Raises OSError, BadInputError for the setting."""
    mode, exact = _mode()
    mode |= (mode & 0o444) >> 2  # reading implies entering
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
