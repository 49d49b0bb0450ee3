"""One tar of an installation's state: files, and last a manifest with the SHA-256 of each.

    airflow/airflow.db, mlflow/artifacts/..., lake/..., ...
    MANIFEST.json    {"format": 1, "created": ..., "versions": {...}, "files": {path: {"bytes", "sha256"}}}

An archive without its manifest was cut off. What is read from one is a file or nothing: no link, no device,
no path that leads out of the folder that it is unpacked into, no file that the manifest does not name.
"""

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from foundation import strict_json
from foundation.errors import BadInputError
from foundation.process_lock import held, sweep
from foundation.replaced_files import sync_folder

MANIFEST, FORMAT = "MANIFEST.json", 1
_MOST_MANIFEST_BYTES = 256 * 2**20
_CHUNK = 2**20
_DAMAGED = "Take another backup of the installation, or another copy of this one."


@dataclass(frozen=True)
class StateManifest:
    """What an archive holds. `versions`: of the programs that wrote the state; `left_out`: in words."""

    created: str
    versions: Mapping[str, str]
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def total_bytes(self) -> int:
        """The sizes of all files."""
        return sum(int(file["bytes"]) for file in self.files.values())


class ArchiveWriter:
    """Adds files to an archive that is being written."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.files: dict[str, dict[str, Any]] = {}

    def add(self, name: str, path: Path) -> None:
        """Add a file as it is when it is opened: one that is appended to meanwhile, or replaced, is whole."""
        with path.open("rb") as source:
            status = os.fstat(source.fileno())
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = (
                status.st_size,
                int(status.st_mtime),
                status.st_mode & 0o777,
            )
            reading = _Digesting(source, status.st_size)
            self._tar.addfile(member, cast("BinaryIO", reading))
        self.files[name] = {"bytes": status.st_size, "sha256": reading.digest.hexdigest()}


@contextmanager
def write_archive(target: Path, manifest: StateManifest) -> Iterator[ArchiveWriter]:
    """Write an archive: its owner's only, whole or not at all; a killed writer's part goes at the next.

    Compressed where its name ends in .gz or .xz. Raises OSError.
    """
    beginning = f".{target.name}.part-"
    sweep(target.parent.glob(f"{beginning}*"))
    scratch = target.with_name(f"{beginning}{os.getpid()}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream, held(scratch):
            kind = target.suffix.removeprefix(".")
            mode = f"w:{kind}" if kind in ("gz", "xz") else "w"
            with tarfile.open(fileobj=stream, mode=mode, format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
                writer = ArchiveWriter(tar)
                yield writer
                document = {"format": FORMAT, **asdict(manifest), "files": writer.files}
                payload = json.dumps(document, indent=1, sort_keys=True).encode()
                member = tarfile.TarInfo(MANIFEST)
                member.size, member.mode = len(payload), 0o600
                tar.addfile(member, io.BytesIO(payload))
            stream.flush()
            os.fsync(stream.fileno())
            scratch.replace(target)
        sync_folder(target.parent)
    finally:
        scratch.unlink(missing_ok=True)


def unpack_archive(archive: Path, folder: Path) -> StateManifest:
    """Unpack an archive into an empty folder and verify every file against its manifest.

    Raises BadInputError for anything that a backup does not write, with the folder as it was then.
    """
    seen: dict[str, dict[str, Any]] = {}
    payload: bytes | None = None
    free_bytes = shutil.disk_usage(folder).free
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                if payload is not None:
                    raise _bad(archive, f"{member.name!r} stands behind its manifest")
                if member.name == MANIFEST:
                    payload = _manifest_bytes(tar, member, archive)
                    continue
                _check_member(member, seen, archive)
                free_bytes -= member.size
                if free_bytes < 0:
                    raise BadInputError(
                        f"{archive} holds more than fits on the disk of {folder}.", remedy="Make room."
                    )
                tar.extract(member, folder, filter="data")
                seen[member.name] = {"bytes": member.size, "sha256": _sha256(folder / member.name)}
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _bad(archive, str(error)) from error
    if payload is None:
        raise _bad(archive, "it has no manifest: it was cut off")
    manifest = _parse(payload, archive)
    for name in sorted(manifest.files.keys() | seen.keys()):
        if manifest.files.get(name) != seen.get(name):
            raise _bad(archive, f"{name} is not as its manifest says")
    return manifest


class _Digesting:
    """A file's first `size` bytes, with the digest of what was read."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source, self._left = source, size
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """As a file's `read`."""
        chunk = self._source.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(chunk)
        self.digest.update(chunk)
        return chunk


def _check_member(member: tarfile.TarInfo, seen: Mapping[str, Any], archive: Path) -> None:
    path = PurePosixPath(member.name)
    if not member.isreg():
        raise _bad(archive, f"{member.name!r} is no file")
    if path.is_absolute() or ".." in path.parts or str(path) != member.name or "\\" in member.name:
        raise _bad(archive, f"{member.name!r} is no path in a state folder")
    if member.name in seen:
        raise _bad(archive, f"{member.name!r} stands in it twice")


def _manifest_bytes(tar: tarfile.TarFile, member: tarfile.TarInfo, archive: Path) -> bytes:
    stream = tar.extractfile(member) if member.isreg() and member.size <= _MOST_MANIFEST_BYTES else None
    if stream is None:
        raise _bad(archive, "its manifest is none")
    return stream.read()


def _parse(payload: bytes, archive: Path) -> StateManifest:
    try:
        document = strict_json.loads(payload)
        if document["format"] != FORMAT:
            raise BadInputError(
                f"{archive} has format {document['format']!r}; this version reads {FORMAT}.",
                remedy="Restore it with the version that wrote it, or a newer one.",
            )
        return StateManifest(
            str(document["created"]),
            {str(name): str(text) for name, text in document["versions"].items()},
            {str(name): dict(file) for name, file in document["files"].items()},
            tuple(map(str, document["left_out"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _bad(archive, f"its manifest cannot be read ({type(error).__name__})") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _bad(archive: Path, why: str) -> BadInputError:
    return BadInputError(f"{archive} is no whole backup: {why}.", remedy=_DAMAGED)
