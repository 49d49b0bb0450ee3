"""What a text from outside may name: a file (and nothing else that can be opened), a place, a cluster.

A pipe, a socket or a device may never answer: `open_regular` refuses them without waiting. A command line is
its user's own shell and reads any place. A worker that fills in a form's fields does not: within
`reading_only_from` every place that `storage.locate` and the readers of plain files are asked for must lie in
one of the roots. Symbolic links are followed before it is judged. A cluster's name becomes a folder of the
lake, a registered model and state files.

Needs the standard library and `foundation.errors` alone, so that the light client and forms can use it.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from foundation.errors import BadInputError

CLUSTER_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"  # as a whole
CLUSTER_NAME_RULE = "a letter or digit, then letters, digits, '.', '_' and '-', at most 100 in all"

_SCHEME = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]+://")
# Options, logins and chains of file systems would lead a permitted prefix elsewhere.
_DETOURS = ("?", "#", "@", "::", "\\")


class NotAFileError(OSError):
    """The path leads to something that is no file: a folder, a pipe, a socket or a device."""

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        super().__init__(errno.EINVAL, f"{kind}, not a file", os.fspath(path))
        self.kind = kind


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading without waiting. Raises OSError: NotAFileError for what is none."""
    # Without O_NONBLOCK opening a pipe waits for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise NotAFileError(path, _kind(mode))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | os.PathLike[str], most_bytes: int = -1) -> bytes:
    """Return a file's content, or its first `most_bytes`; raises as `open_regular`."""
    with open_regular(path) as file:
        return file.read(most_bytes)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def has_scheme(uri: str) -> bool:
    """Whether the text is a URI with a scheme, and not a plain path."""
    return _SCHEME.match(uri) is not None


def local_path(uri: str) -> str | None:
    """Return the absolute path of a plain path or a file:// URI; None for any other scheme."""
    if not has_scheme(uri):
        return str(Path(uri).expanduser().absolute())
    parts = urlsplit(uri)
    return str(Path(unquote(parts.path)).absolute()) if parts.scheme == "file" else None


@dataclass(frozen=True)
class InputRoots:
    """The places that may be read from.

    - `roots`: folders, and URI prefixes such as `s3://bucket/logs` (`s3://` alone is every bucket).
    - `closed`: folders that stay closed below a root, unless a root lies in them again.

    Files and folders below a root with names that begin with a dot are closed as well.
    """

    roots: tuple[str, ...]
    closed: tuple[str, ...] = ()

    def admit(self, uri: str, what: str = "The place") -> str:
        """Return where a path or URI leads, links resolved. Raises BadInputError unless that is in a root.

        Whether it exists is not looked at, and the error does not say where a link leads.
        """
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in uri):
            raise BadInputError(
                f"{what} {uri!r} holds control characters.", remedy="Give a plain path or URI."
            )
        path = local_path(uri)
        admitted = (
            self._admits_uri(uri) if path is None else self._admits_path(path := os.path.realpath(path))
        )
        if admitted:
            return uri if path is None else path
        raise BadInputError(
            f"{what} {uri!r} lies outside of the places that forms may read from: {self._named()}.",
            remedy="Put the file there, or have LUCID_INPUT_ROOTS name its folder or URI prefix.",
        )

    def _admits_path(self, path: str) -> bool:
        root = _deepest(path, (place for each in self.roots if (place := local_path(each)) is not None))
        if root is None:
            return False
        closed = _deepest(path, self.closed)
        if closed is not None and len(closed) > len(root):
            return False
        return not any(part.startswith(".") for part in Path(path).relative_to(root).parts)

    def _admits_uri(self, uri: str) -> bool:
        if uri in self.roots:
            return True
        if any(detour in uri for detour in _DETOURS):
            return False
        if any(part in (".", "..") for part in unquote(uri).split("/")):
            return False
        prefixes = (root if root.endswith("/") else f"{root}/" for root in self.roots if has_scheme(root))
        return any(uri.startswith(prefix) for prefix in prefixes)

    def _named(self) -> str:
        return ", ".join(dict.fromkeys(self.roots)) or "none"


def _deepest(path: str, folders: Iterator[str] | tuple[str, ...]) -> str | None:
    """Return the longest of the folders (links resolved) that is or holds the path."""
    real = (os.path.realpath(folder) for folder in folders)
    holding = [folder for folder in real if Path(path).is_relative_to(folder)]
    return max(holding, key=len, default=None)


# The guards of this process: threads that a task starts are under them as well.
_guards: list[Callable[[], InputRoots]] = []


@contextmanager
def reading_only_from(roots: Callable[[], InputRoots]) -> Iterator[None]:
    """Let nothing be opened outside of the roots; `roots` is asked when first something is opened."""
    found: list[InputRoots] = []

    def once() -> InputRoots:
        if not found:
            found.append(roots())
        return found[0]

    _guards.append(once)
    try:
        yield
    finally:
        _guards.remove(once)


def admitted(uri: str) -> str:
    """Return where to open a path or URI: as it is, or as `InputRoots.admit` says while a guard stands."""
    for guard in _guards:
        uri = guard().admit(uri)
    return uri


def check_opened(descriptor: int) -> None:
    """Raise BadInputError when an open file is not one that is admitted: a link may have been moved between
    the question and the opening.
    """
    if _guards:
        admitted(os.path.realpath(f"/proc/self/fd/{descriptor}"))


def check_cluster_name(cluster: str) -> str:
    """The name, when it can be a folder's name; else BadInputError."""
    if not re.fullmatch(CLUSTER_NAME, cluster):
        raise BadInputError(f"{cluster!r} cannot name a cluster.", remedy=f"Use {CLUSTER_NAME_RULE}.")
    return cluster


def clusters_in_folder(lake_uri: str | None) -> list[str]:
    """The clusters with jobs in a lake that is a folder of this machine, for forms to suggest.

    Light to import and to call: an object store is not asked, and has none here; `Lake.clusters` tells all.
    """
    if not lake_uri or ("://" in lake_uri and not lake_uri.startswith("file://")):
        return []
    folders = Path(lake_uri.removeprefix("file://"), "jobs").glob("cluster=*")
    return sorted(folder.name.removeprefix("cluster=") for folder in folders)
