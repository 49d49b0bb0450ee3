"""Backs up a local installation's state while it runs, and restores it.

Databases go in by SQLite's own online backup, the lake cluster by cluster while no other process writes it.
What refers to something is copied before it: Airflow, MLflow's database, its files, the lake. Restored is
into an empty place, once every file was verified, in one move.
"""

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from cluster_logs.lake import Lake
from cluster_logs.removal import lake_clusters
from foundation.errors import BadInputError
from foundation.process_lock import held, scratch_folder, sweep
from foundation.progress import Progress, silent
from foundation.replaced_files import sync_folder
from foundation.storage import TEMPORARY_PREFIX
from local_stack.stack_config import StackConfig
from local_stack.state_archive import StateManifest, unpack_archive, write_archive
from local_stack.supervisor import running_supervisor

# Not state: what runs, and what it said.
LEFT_OUT = ("run", "log", "airflow/logs")
PROGRAMS = {"lucid": "lucid-mlops", "airflow": "apache-airflow", "mlflow": "mlflow"}
KEYS = "keys"
_ORDER = ("airflow", "mlflow", "mlflow-local", "lake")
_SQLITE = b"SQLite format 3\0"
_BESIDE_DATABASES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class BackedUp:
    """What was written or restored: where, how much, and what is to be said of it."""

    place: Path
    files: int
    total_bytes: int
    versions: dict[str, str]
    left_out: tuple[str, ...]


def back_up(
    state_dir: Path,
    target: Path,
    *,
    lake_uri: str,
    with_keys: bool = False,
    lake_wait_s: float = 600.0,
    progress: Progress = silent,
) -> BackedUp:
    """Write the state below `state_dir` into one archive (.tar, .tar.gz, .tar.xz), its owner's only.

    Private signing keys go in only `with_keys`; the archive holds other secrets (logins, Airflow's Fernet
    key) in any case. Raises BadInputError without a state or over an existing file, ClusterBusyError where a
    cluster is written for longer than `lake_wait_s`, OSError.
    """
    if not state_dir.is_dir():
        raise BadInputError(f"There is no state in {state_dir}.", remedy="Set LUCID_STATE_DIR.")
    if target.exists():
        raise BadInputError(f"{target} is there already.", remedy="Name another file.")
    left_out = _left_out(state_dir, lake_uri, with_keys)
    manifest = StateManifest(datetime.now(UTC).isoformat(timespec="seconds"), _versions(), left_out=left_out)
    with write_archive(target, manifest) as archive, scratch_folder("backup") as scratch:
        for path in _state_files(state_dir, with_keys, lake_uri, lake_wait_s):
            if path.absolute() == target.absolute() or path.name.startswith(f".{target.name}.part-"):
                continue  # it is written into the state itself
            name = path.relative_to(state_dir).as_posix()
            progress(len(archive.files), None, f"backing up {name}")
            try:
                archive.add(name, _copied(path, scratch) if _is_database(path) else path)
            except FileNotFoundError:
                continue  # removed meanwhile: nothing that was copied before needs it
        files = archive.files
    total_bytes = sum(file["bytes"] for file in files.values())
    return BackedUp(target, len(files), total_bytes, dict(manifest.versions), left_out)


def restore(archive: Path, state_dir: Path, *, replace: bool = False) -> BackedUp:
    """Put an archive's state where `state_dir` is, once all of it was verified; killed, it changed nothing.

    `replace`: also where there is a state already, which is moved aside to a folder beside it. Raises
    BadInputError for an archive that is not whole or that newer programs wrote, and where a stack runs.
    """
    if running_supervisor(StackConfig(state_dir).run_dir) is not None:
        raise BadInputError(f"A stack runs in {state_dir}.", remedy="Stop it first: `make down`.")
    there = state_dir.is_dir() and any(state_dir.iterdir())
    if there and not replace:
        raise BadInputError(
            f"{state_dir} is not empty.",
            remedy="Name another folder by LUCID_STATE_DIR, or say --replace: what is there is moved aside.",
        )
    state_dir.parent.mkdir(parents=True, exist_ok=True)
    beginning = f".{state_dir.name}.restoring-"
    sweep(state_dir.parent.glob(f"{beginning}*"))
    unpacked = state_dir.with_name(f"{beginning}{os.getpid()}")
    unpacked.mkdir(mode=0o700)
    try:
        with held(unpacked):
            manifest = unpack_archive(archive, unpacked)
            _check_versions(manifest)
            os.sync()  # all of it, before it takes its place
            if there:
                state_dir.rename(state_dir.with_name(f"{state_dir.name}.before-{_stamp()}"))
            unpacked.rename(state_dir)  # an empty folder is taken over
            sync_folder(state_dir.parent)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    return BackedUp(
        state_dir, len(manifest.files), manifest.total_bytes, dict(manifest.versions), manifest.left_out
    )


def _state_files(state_dir: Path, with_keys: bool, lake_uri: str, lake_wait_s: float) -> Iterator[Path]:
    """The files of a state, each after what refers to it; of the lake a cluster at a time, which no other
    process writes meanwhile.
    """
    tops = sorted(state_dir.iterdir(), key=lambda top: (_place(top.name), top.name))
    for top in tops:
        if top.name == "lake" and _lies_in(state_dir, lake_uri):
            lake = Lake(lake_uri, wait_s=lake_wait_s)
            for cluster in lake_clusters(lake_uri):
                with lake.writing(cluster, "a backup", (), over=True, repairs=False):
                    for folder in sorted(top.glob(f"*/cluster={cluster}")):
                        yield from _files(state_dir, folder, with_keys)
            own = (path for path in _files(state_dir, top, with_keys) if "/cluster=" not in path.as_posix())
            yield from own
        else:
            yield from _files(state_dir, top, with_keys)


def _files(state_dir: Path, top: Path, with_keys: bool) -> Iterator[Path]:
    """The regular files of a folder, or a file itself, that belong to the state."""
    found = [Path(place) / name for place, _, names in os.walk(top) for name in names]
    for path in sorted(found) if top.is_dir() else [top]:
        name = path.relative_to(state_dir).as_posix()
        if any(name == out or name.startswith(f"{out}/") for out in LEFT_OUT):
            continue
        if name.startswith("lake/") and (path.name == ".lock" or path.name.startswith(TEMPORARY_PREFIX)):
            continue
        if not with_keys and name.startswith(f"{KEYS}/"):
            continue
        if path.is_file() and not path.is_symlink() and not _is_beside_database(path):
            yield path


def _is_beside_database(path: Path) -> bool:
    """Whether a file is part of an SQLite database that another one names."""
    endings = (end for end in _BESIDE_DATABASES if path.name.endswith(end))
    return any(_is_database(path.with_name(path.name.removesuffix(end))) for end in endings)


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _lies_in(state_dir: Path, lake_uri: str) -> bool:
    return Path(lake_uri).absolute() == (state_dir / "lake").absolute()


def _left_out(state_dir: Path, lake_uri: str, with_keys: bool) -> tuple[str, ...]:
    """What is not in the archive although an installation needs it, in words."""
    told = []
    if not _lies_in(state_dir, lake_uri):
        told.append(f"the lake, which lies elsewhere: {lake_uri}")
    if not with_keys and any((state_dir / KEYS).glob("*")):
        told.append("private signing keys: keep them apart, or say --with-keys")
    return tuple(told)


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _copied(database: Path, scratch: Path) -> Path:
    """A copy of an SQLite database as it is at one moment, even while it is written."""
    copy = scratch / database.name
    copy.unlink(missing_ok=True)
    source = f"{database.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(source, uri=True, timeout=60)) as live,
        closing(sqlite3.connect(copy)) as target,
    ):
        live.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # else it needs files beside it
        found = target.execute("PRAGMA quick_check").fetchone()[0]
    if found != "ok":
        raise BadInputError(f"The database {database} is damaged: {found}.", remedy="Repair it first.")
    copy.chmod(0o600)
    return copy


def _versions() -> dict[str, str]:
    return {name: version(distribution) for name, distribution in PROGRAMS.items()}


def _check_versions(manifest: StateManifest) -> None:
    """Refuse what newer programs wrote: a database is migrated forwards only."""
    for name, here in _versions().items():
        wrote = manifest.versions.get(name, "0")
        if _numbers(wrote) > _numbers(here):
            raise BadInputError(
                f"The backup was written with {name} {wrote}; here is {here}.",
                remedy="Restore it with that version of the product, or a newer one.",
            )


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version, to compare it by."""
    return tuple(map(int, re.findall(r"\d+", text)))


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
