"""Files behind a URI: a plain path, file://, s3:// and gs:// (pyarrow), memory:// and whatever else fsspec
knows.

A file is written under a temporary name beside its place and then moved there, so a reader sees the old file
or the new one and never half of one. The move is atomic on a local file system; object stores replace whole
objects anyway.
"""

import contextlib
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

from foundation.errors import BadInputError, ServiceUnavailableError
from foundation.input_roots import admitted, local_path
from foundation.lake_modes import make_file, make_folder
from foundation.leftovers import held, sweep

if TYPE_CHECKING:
    import pandas as pd

# A leading dot keeps Parquet tools from taking a file that is being written for data.
TEMPORARY_PREFIX = ".writing-"
_LONGEST_WRITE_S = 86_400.0


def locate(uri: str) -> tuple[pafs.FileSystem, str]:
    """The file system behind a URI and the path in it.

    `AWS_ENDPOINT_URL` names an object store of one's own for s3://. Raises BadInputError for a scheme that
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

    On a local disk who may read it is as `foundation.lake_modes` says.
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
