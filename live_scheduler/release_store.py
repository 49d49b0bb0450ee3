"""The last known good release on disk: written whole or not at all, read only when everything verifies.

    STATE/CLUSTER/releases/VERSION-DIGEST/{manifest.json, verdict.json, packing.json, throughput.json,
                                           duration.json}
    STATE/CLUSTER/current-ALIAS.json    which of them to start with, and the signed statements on it as they
                                        came; replaced in one step, after the folder is complete
    STATE/CLUSTER/newest-publication.json   which publication was the newest (`statement_belief.py`)
    STATE/CLUSTER/status-ALIAS.json     what the client last saw, for people and monitoring

Several clients may share the folder, of one cluster or of several. Pointers of version 1 lay in STATE itself
and named no cluster: such a release is not used.
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from foundation import strict_json
from foundation.errors import BadInputError, ReleaseRefusedError
from foundation.outside_names import read_regular
from foundation.private_files import private_folder
from foundation.process_lock import held, sweep
from foundation.replaced_files import replace_file, sync_folder, write_durably
from live_scheduler.beliefs import Backing, ReleaseBelief
from live_scheduler.release import LiveRelease
from lucid_models.releases.approval import (
    APPROVED,
    MAX_VERDICT_BYTES,
    ReleaseIdentity,
    VerdictTags,
    check_approval,
    identify,
)
from lucid_models.releases.manifest import (
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    VERDICT_FILE,
    ReleaseManifest,
    parse_pinned_manifest,
)
from lucid_models.releases.optional_parts import optional_part
from lucid_models.signing.statements import NO_STATEMENTS, StatementTags

POINTER_VERSION = 2
_MAX_POINTER_BYTES = 256 * 1024  # two envelopes, each of at most 64 KiB, in JSON
ReadFile = Callable[[str, int], bytes]
"""Reads a file of a release by name, of at most so many bytes."""


class ReleaseStore:
    """The state folder of clients that follow releases."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(
        self,
        release: LiveRelease,
        files: Mapping[str, bytes],
        origin: str,
        statements: StatementTags = NO_STATEMENTS,
    ) -> None:
        """Keep an approved release as the last known good one of its cluster, alias and server.

        Raises OSError.
        """
        name = f"{release.version}-{release.manifest_sha256[:16]}"
        home = self.folder / release.manifest.cluster
        releases = home / "releases"
        private_folder(releases)
        sweep([*releases.glob(".*"), *home.glob(".*.json.*")])
        target = releases / name
        if not _holds(target, files):
            scratch = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=releases))
            try:
                with held(scratch):
                    for file, payload in files.items():
                        write_durably(scratch / file, payload)
                    sync_folder(scratch)
                    if target.exists():
                        # A damaged copy from before; a rename cannot replace a folder that is not empty.
                        target.rename(scratch / "damaged")
                        shutil.rmtree(scratch / "damaged", ignore_errors=True)
                    scratch.rename(target)
                sync_folder(releases)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        self._point(home, name, release, origin, statements)
        _forget_unused(home)

    def keep_statements(self, release: LiveRelease, origin: str, statements: StatementTags) -> None:
        """Keep newer statements on the release that is kept already; raises OSError where it is not."""
        home = self.folder / release.manifest.cluster
        name = f"{release.version}-{release.manifest_sha256[:16]}"
        (home / "releases" / name).stat()
        self._point(home, name, release, origin, statements)

    def _point(
        self, home: Path, name: str, release: LiveRelease, origin: str, statements: StatementTags
    ) -> None:
        pointer = {
            "format_version": POINTER_VERSION,
            "origin": origin,
            "cluster": release.manifest.cluster,
            "alias": release.alias,
            "version": release.version,
            "folder": name,
            "manifest_sha256": release.manifest_sha256,
            "verdict_sha256": release.verdict_sha256,
            "statements": asdict(statements),
        }
        self._replace(home / _pointer_file(release.alias), pointer)

    def load(
        self, cluster: str, alias: str, origin: str, belief: ReleaseBelief
    ) -> tuple[LiveRelease, Backing] | None:
        """The last known good release of a cluster's alias on one tracking server, with what backs it; None:
        there never was one.

        Raises ReleaseRefusedError when something is there but does not verify, OSError when it cannot be
        read.
        """
        home = self.folder / cluster
        path = home / _pointer_file(alias)
        if not path.exists():
            return None
        pointer = _read_pointer(path)
        if pointer["origin"] != origin:
            return None
        folder = home / "releases" / pointer["folder"]
        if pointer["cluster"] != cluster:
            raise ReleaseRefusedError(f"{path} is of cluster {pointer['cluster']!r}.")
        identity = identify(cluster, pointer.get("version"), pointer["manifest_sha256"])
        verdict_sha256 = pointer["verdict_sha256"]
        backing = belief.believe_kept(identity, verdict_sha256, _statements(path, pointer))

        def read(file: str, most: int) -> bytes:
            payload = _read(folder / file, most)
            backing.check(file, payload)
            return payload

        tags = VerdictTags(APPROVED, verdict_sha256, None)
        release, _ = verify_release(alias, identity, tags, read, signed_by=backing.signed_by)
        return release, backing

    def clusters(self, alias: str, origin: str) -> list[str]:
        """The clusters whose alias on this tracking server was ever followed from here, by name."""
        names = []
        for path in self.folder.glob(f"*/{_pointer_file(alias)}"):
            with contextlib.suppress(ReleaseRefusedError, OSError):
                if _read_pointer(path)["origin"] == origin:
                    names.append(path.parent.name)
        return sorted(names)

    def write_status(self, cluster: str, alias: str, status: Mapping[str, Any]) -> None:
        """Replace the status file of a cluster's alias; raises OSError."""
        home = self.folder / cluster
        private_folder(home, tighten=False)
        self._replace(home / f"status-{alias}.json", status)

    def _replace(self, path: Path, document: Mapping[str, Any]) -> None:
        payload = (json.dumps(document, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()
        replace_file(path, payload, durable=True)


def _pointer_file(alias: str) -> str:
    return f"current-{alias}.json"


def _forget_unused(home: Path) -> None:
    """Delete releases that no alias starts with, except the newest two folders (a rollback is near)."""
    used = set()
    for path in home.glob("current-*.json"):
        with contextlib.suppress(ReleaseRefusedError, OSError):
            used.add(_read_pointer(path)["folder"])
    folders = [path for path in (home / "releases").iterdir() if not path.name.startswith(".")]
    newest = sorted(folders, key=lambda path: path.stat().st_mtime_ns, reverse=True)[:2]
    for path in folders:
        if path.name not in used and path not in newest:
            shutil.rmtree(path, ignore_errors=True)


def _read_pointer(path: Path) -> dict[str, Any]:
    try:
        data = strict_json.loads(_read(path, _MAX_POINTER_BYTES))
        folder = data["folder"]
        if data["format_version"] != POINTER_VERSION:
            raise ReleaseRefusedError(f"{path} has format version {data['format_version']!r}.")
        if not isinstance(folder, str) or Path(folder).name != folder or folder.startswith("."):
            raise ReleaseRefusedError(f"{path} names the folder {folder!r}.")
        for field in ("origin", "cluster", "manifest_sha256", "verdict_sha256"):
            if not isinstance(data[field], str):
                raise ReleaseRefusedError(f"{path} has the {field} {data[field]!r}.")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReleaseRefusedError(f"{path} is damaged: {error!r}.") from error
    result: dict[str, Any] = data
    return result


def _statements(path: Path, pointer: Mapping[str, Any]) -> StatementTags:
    """The statements that were kept; none where an older version kept the release."""
    kept = pointer.get("statements") or {}
    values = [kept.get(each.name) for each in fields(StatementTags)] if isinstance(kept, dict) else [0]
    if not all(value is None or isinstance(value, str) for value in values):
        raise ReleaseRefusedError(f"{path} has statements that are no text.")
    return StatementTags(*values)


def _holds(folder: Path, files: Mapping[str, bytes]) -> bool:
    try:
        return all(
            read_regular(folder / file, len(payload) + 1) == payload for file, payload in files.items()
        )
    except OSError:
        return False


def _read(path: Path, most: int) -> bytes:
    payload = read_regular(path, most + 1)
    if len(payload) > most:
        raise ReleaseRefusedError(f"{path} holds more than the {most} bytes that it may.")
    return payload


def verify_release(
    alias: str,
    release: ReleaseIdentity,
    verdict: VerdictTags | None,
    read: ReadFile,
    announce: Callable[[ReleaseManifest], object] = lambda manifest: None,
    *,
    signed_by: Sequence[str] = (),
) -> tuple[LiveRelease, dict[str, bytes]]:
    """The release with its files, when its verdict approves exactly it and everything in it verifies.

    What a server holds is believed as little as what a disk holds. NumPy and the scorers, which take most of
    the client's start, are imported for the first approved release.

    `verdict` None: without an approval. `announce` is called with the manifest before the models are read.
    `signed_by`: the roles whose signatures on it were verified before.
    Raises ReleaseRefusedError, and what `read` raises.
    """
    files: dict[str, bytes] = {}
    if verdict is not None:
        # First, because it is small: what is not approved is not fetched.
        document = None if verdict.word is None else read(VERDICT_FILE, MAX_VERDICT_BYTES)
        check_approval(release, verdict, document)
        files |= {} if document is None else {VERDICT_FILE: document}
    from lucid_models.releases.files import check_size, load_release_scorers

    payload = files[MANIFEST_FILE] = read(MANIFEST_FILE, MAX_MANIFEST_BYTES)
    manifest = parse_pinned_manifest(payload, name=release.name, sha256=release.manifest_sha256)
    announce(manifest)
    for kind, pin in manifest.models.items():
        files[pin.file] = read(pin.file, pin.bytes)
        check_size(manifest, kind, len(files[pin.file]))
    scorers = load_release_scorers(manifest, files)
    for name, settings in manifest.parts.items():
        part = optional_part(name)
        try:
            part.check_settings(settings)
        except BadInputError as error:
            raise ReleaseRefusedError(
                f"The release's settings of {part.what} do not hold: {error}"
            ) from error
    approval = None if verdict is None else verdict.sha256
    return (
        LiveRelease(
            alias, release.version, manifest, release.manifest_sha256, approval, scorers, tuple(signed_by)
        ),
        files,
    )
