"""Which processes may change a cluster's tables, and which may read them while they change.

One writer at a time: a second one waits, and reports it after a while. Before the first
file changes, the cluster's record says what is being written; when all is written the note goes. Readers
refuse tables that such a note names: while its writer lives they wait a little, and when it died they say
what to do. The same task again begins where nothing is lost by it (every write merges), and takes the note
away.

    ROOT/clusters/cluster=C/record.json

The record has an integer `format`. Version 1: `logs` ("real", "synthetic" or null), `writes` (how often each
table was changed), `writing` (null, or which task began to change which tables and has not ended). Another
version is refused. To change the format: raise FORMAT, and keep reading the older one here.
"""

import json
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import pyarrow.fs as pafs

from cluster_logs.store_lock import ClusterLock, StoreLock
from foundation import strict_json
from foundation.errors import BadInputError, ChangedWhileReadError, ClusterBusyError, HalfWrittenError
from foundation.outside_names import check_cluster_name
from foundation.process_lock import ProcessLock, acquire_within, holder, is_held
from foundation.progress import Progress, Work, silent
from foundation.storage import make_file, make_folder, write_atomically

RECORDS = "clusters"
# How long a writer waits for another, and a reader for a writer, unless set otherwise.
WRITER_WAITS_S = 600.0
READER_WAITS_S = 60.0

FORMAT = 1
# The synthetic generator names its rows' source `NAME.synthetic`.
SYNTHETIC_SUFFIX = ".synthetic"

# The sessions of this thread, by lake and cluster: what is done within one belongs to it.
_own = threading.local()


class LogOrigin(StrEnum):
    """Where rows come from. MIXED: a file that is offered holds both; no cluster of a lake does."""

    REAL = "real"
    SYNTHETIC = "synthetic"
    MIXED = "mixed"


@dataclass(frozen=True)
class UnfinishedWrite:
    """A change that has begun: what it does, which tables it may leave half-written, from which inputs, and
    the process that began it.
    """

    task: str
    tables: tuple[str, ...]
    inputs: tuple[str, ...]
    process: str
    since: str


@dataclass(frozen=True)
class ClusterRecord:
    """The record of one cluster. `logs` None: no row has said yet."""

    logs: LogOrigin | None = None
    writes: dict[str, int] = field(default_factory=dict)
    writing: UnfinishedWrite | None = None

    def to_bytes(self) -> bytes:
        """The record as JSON."""
        return (json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True) + "\n").encode()


def parse_record(payload: bytes, place: str) -> ClusterRecord:
    """The record in a file's bytes. Raises BadInputError naming the place for one that cannot be read."""
    try:
        document = strict_json.loads(payload)
        if document["format"] != FORMAT:
            raise BadInputError(
                f"{place} has format {document['format']!r}; this version reads {FORMAT}.",
                remedy="Use the version that wrote it, or a newer one.",
            )
        writing = document["writing"]
        return ClusterRecord(
            logs=None if document["logs"] is None else LogOrigin(document["logs"]),
            writes={str(table): int(count) for table, count in document["writes"].items()},
            writing=None
            if writing is None
            else UnfinishedWrite(
                str(writing["task"]),
                tuple(map(str, writing["tables"])),
                tuple(map(str, writing["inputs"])),
                str(writing["process"]),
                str(writing["since"]),
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInputError(
            f"{place} is no record of a cluster: {type(error).__name__} {error}.",
            remedy="Restore the file, or remove the cluster: `lucid remove-cluster`.",
        ) from error


def logs_of_rows(source_files: Iterable[str]) -> LogOrigin | None:
    """Where jobs come from, by the names of their source files; None without any."""
    made = {name.endswith(SYNTHETIC_SUFFIX) for name in source_files}
    if len(made) == 2:
        return LogOrigin.MIXED
    return None if not made else LogOrigin.SYNTHETIC if made.pop() else LogOrigin.REAL


class LocalLock:
    """A lock on a local file, which ends with its process."""

    def __init__(self, folder: Path) -> None:
        self._lock = ProcessLock(folder / ".lock")
        self._ours = False

    def acquire(self) -> bool:
        """Take the lock, if it is free; say whether it is ours."""
        make_folder(self._lock.path.parent)
        make_file(self._lock.path)
        self._ours = self._lock.acquire()
        return self._ours

    def release(self) -> None:
        """Give it up; without it, do nothing."""
        self._ours = False
        self._lock.release()

    def is_ours(self) -> bool:
        """Whether it is ours."""
        return self._ours

    def owner(self) -> str | None:
        """The process that holds it, described; None: no living one."""
        if not is_held(self._lock.path):
            return None
        process = holder(self._lock.path)
        return "another process" if process is None else f"process {process}"


def lock_for(fs: pafs.FileSystem, folder: str) -> ClusterLock:
    """The lock that lies in a folder, of the kind that its file system allows."""
    return LocalLock(Path(folder)) if isinstance(fs, pafs.LocalFileSystem) else StoreLock(fs, folder)


@dataclass
class WriteSession:
    """The right to change a cluster's tables, under the note `task`.

    `left_behind`: what an earlier process began and did not end. `noted`: the tables that the record names.
    """

    lock: ClusterLock
    record: ClusterRecord
    task: UnfinishedWrite
    left_behind: UnfinishedWrite | None
    logs: LogOrigin | None
    changed: set[str] = field(default_factory=set)
    noted: tuple[str, ...] = ()


class ClusterWrites:
    """Locks, notes and records of the clusters of one lake."""

    def __init__(self, fs: pafs.FileSystem, root: str, uri: str) -> None:
        self._fs = fs
        self._root = root
        self.uri = uri

    # Writing -------------------------------------------------------------------------------------------

    @contextmanager
    def session(
        self,
        cluster: str,
        task: str,
        tables: Sequence[str],
        *,
        inputs: Sequence[str] = (),
        wait_s: float = WRITER_WAITS_S,
        progress: Progress = silent,
        over: bool = False,
        repairs: bool = True,
    ) -> Iterator[WriteSession]:
        """Be the only writer of a cluster; a session within another one of the same thread is part of it.

        `over`: also where another task did not end. Without `repairs` the note of the same task stays.
        Raises ClusterBusyError when another writer does not end within `wait_s`, HalfWrittenError when
        another task did not end and its process is gone.
        """
        within = self._current(cluster)
        if within is not None:
            within.task = replace(within.task, tables=_union(within.task.tables, tables))
            yield within
            return
        lock = self._take_lock(cluster, task, wait_s, progress)
        try:
            record = self.record(cluster)
            unfinished = record.writing
            if unfinished is not None and unfinished.task != task and not over:
                raise _half_written(cluster, self.uri, unfinished)
            note = UnfinishedWrite(
                task,
                _union(unfinished.tables if unfinished else (), tables),
                _union(unfinished.inputs if unfinished and unfinished.task == task else (), inputs),
                f"process {os.getpid()} on {socket.gethostname()}",
                datetime.now(UTC).isoformat(timespec="seconds"),
            )
            session = WriteSession(lock, record, note, unfinished, self.logs(cluster))
            _sessions()[self._key(cluster)] = session
            yield session
            if session.changed or (unfinished is not None and repairs):
                self._end(cluster, session, keep_note=unfinished is not None and not repairs)
        finally:
            _sessions().pop(self._key(cluster), None)
            lock.release()

    @contextmanager
    def completing(self, cluster: str, task: str) -> Iterator[None]:
        """Read within also what the task left half-written."""
        key = self._key(cluster)
        _own.completed = {**_completed(), key: task}
        try:
            yield
        finally:
            _own.completed = {other: name for other, name in _completed().items() if other != key}

    def changing(self, cluster: str, table: str) -> None:
        """Note that a file of the table is about to change; to be called within a session.

        Raises ClusterBusyError when the lock was lost meanwhile: nothing more may be written.
        """
        session = self._current(cluster)
        if session is None:
            raise RuntimeError(f"{table} of {cluster} changes outside a session")
        if not session.lock.is_ours():
            raise ClusterBusyError(
                f"This process was kept from writing cluster {cluster!r} for so long that another may have "
                "taken over.",
                remedy="Run it again.",
            )
        session.task = replace(session.task, tables=_union(session.task.tables, (table,)))
        if session.noted != session.task.tables:
            self._write(cluster, replace(session.record, logs=session.logs, writing=session.task))
            session.noted = session.task.tables
        session.changed.add(table)

    def admit(self, cluster: str, logs: LogOrigin | None, what: str) -> None:
        """Let rows of an origin into the cluster that the session writes (None: they do not say).

        Raises BadInputError when they would mix with those of the other.
        """
        session = self._current(cluster)
        held = session.logs if session is not None else self.logs(cluster)
        if logs is None or (held == logs != LogOrigin.MIXED):
            return
        if held is not None or logs is LogOrigin.MIXED:
            holds = f"Cluster {cluster!r} of {self.uri} holds rows of {_LOGS[held]}; " if held else ""
            raise BadInputError(
                f"{holds}{what} come from {_LOGS[logs]}. Real and synthetic rows never mix.",
                remedy="Choose another cluster name, or remove the cluster first: `lucid remove-cluster "
                f"--cluster {cluster}`.",
            )
        if session is not None:
            session.logs = logs

    # Reading -------------------------------------------------------------------------------------------

    def check_readable(self, cluster: str, table: str) -> int | None:
        """How often the table was changed, once it is whole, for `check_unchanged`; None for its own writer.

        Raises ClusterBusyError while a living writer changes it for longer than READER_WAITS_S,
        HalfWrittenError when the writer died.
        """
        if self._current(cluster) is not None:
            return None
        reading = _Reading(self, cluster, table)
        if not acquire_within(reading, READER_WAITS_S, lambda _: None):
            raise ClusterBusyError(
                f"Cluster {cluster!r} of {self.uri} is being written: {reading.written_by}.",
                remedy="Try again when it has ended.",
            )
        return reading.record.writes.get(table, 0)

    def check_unchanged(self, cluster: str, table: str, writes: int | None) -> None:
        """Raise ChangedWhileReadError when the table was changed since `check_readable` gave `writes`."""
        if writes is None:
            return
        record = self.record(cluster)
        unfinished = record.writing is not None and not self.may_complete(cluster, record.writing.task)
        if record.writes.get(table, 0) != writes or (unfinished and _is_written(record, table)):
            raise ChangedWhileReadError(
                f"The {table} of cluster {cluster!r} in {self.uri} changed while they were read.",
                remedy="Read them again.",
            )

    def record(self, cluster: str) -> ClusterRecord:
        """The cluster's record; an empty one where there is none."""
        path = self._record_path(cluster)
        if self._fs.get_file_info(path).type != pafs.FileType.File:
            return ClusterRecord()
        with self._fs.open_input_file(path) as source:
            return parse_record(source.read(), f"{self.uri}/{RECORDS}/cluster={cluster}/record.json")

    def logs(self, cluster: str) -> LogOrigin | None:
        """Where the cluster's rows come from, by its record; None before its first row."""
        return self.record(cluster).logs

    def may_complete(self, cluster: str, task: str) -> bool:
        """Whether this thread reads in order to complete the task (`completing`)."""
        return _completed().get(self._key(cluster)) == task

    def writer(self, cluster: str) -> str | None:
        """The process that writes the cluster now, described; None: no living one."""
        return lock_for(self._fs, self._folder(cluster)).owner()

    def forget(self, cluster: str) -> None:
        """Delete the record of the cluster that the session removes."""
        session = self._current(cluster)
        path = self._record_path(cluster)
        if session is not None and self._fs.get_file_info(path).type == pafs.FileType.File:
            self._fs.delete_file(path)
            session.record, session.left_behind, session.logs = ClusterRecord(), None, None
            session.changed.clear()

    # Inside --------------------------------------------------------------------------------------------

    def _take_lock(self, cluster: str, task: str, wait_s: float, progress: Progress) -> ClusterLock:
        lock = lock_for(self._fs, self._folder(cluster))

        def waiting(waited_s: float) -> None:
            what = f"waiting for the writer of cluster {cluster}, {lock.owner()}"
            progress(int(waited_s), None, Work(what, "s"))

        if acquire_within(lock, wait_s, waiting):
            return lock
        writing = self.record(cluster).writing
        doing = f" ({writing.task})" if writing else ""
        raise ClusterBusyError(
            f"Cluster {cluster!r} of {self.uri} is being written by {lock.owner()}{doing}; "
            f"{task} waited {wait_s:g} s for it.",
            remedy="Run it again when that has ended, or wait longer: --wait SECONDS.",
        )

    def _end(self, cluster: str, session: WriteSession, *, keep_note: bool) -> None:
        writes = dict(session.record.writes)
        for table in session.changed | set(session.task.tables if session.left_behind else ()):
            writes[table] = writes.get(table, 0) + 1
        note = session.task if keep_note else None
        self._write(cluster, ClusterRecord(session.logs, writes, note))

    def _write(self, cluster: str, record: ClusterRecord) -> None:
        payload = record.to_bytes()
        write_atomically(self._fs, self._record_path(cluster), lambda sink: sink.write(payload))

    def _current(self, cluster: str) -> WriteSession | None:
        return _sessions().get(self._key(cluster))

    def _key(self, cluster: str) -> tuple[str, str, str]:
        return self._fs.type_name, self._root, cluster

    def _folder(self, cluster: str) -> str:
        return f"{self._root}/{RECORDS}/cluster={check_cluster_name(cluster)}"

    def _record_path(self, cluster: str) -> str:
        return f"{self._folder(cluster)}/record.json"


class _Reading:
    """A table that is waited for until nothing writes it."""

    def __init__(self, writes: ClusterWrites, cluster: str, table: str) -> None:
        self._writes = writes
        self._cluster = cluster
        self._table = table
        self.record = ClusterRecord()

    @property
    def written_by(self) -> str:
        """What is being written, and by which process."""
        writing = self.record.writing
        return "" if writing is None else f"{writing.task}, {writing.process}, since {writing.since}"

    def acquire(self) -> bool:
        """Read the record; whether the table is whole. Raises HalfWrittenError when its writer died."""
        self.record = self._writes.record(self._cluster)
        if not _is_written(self.record, self._table):
            return True
        if self._writes.writer(self._cluster) is not None:
            return False
        # It may have ended between the two questions.
        self.record = self._writes.record(self._cluster)
        if self.record.writing is None or not _is_written(self.record, self._table):
            return True
        if self._writes.may_complete(self._cluster, self.record.writing.task):
            return True
        raise _half_written(self._cluster, self._writes.uri, self.record.writing)


_LOGS = {
    LogOrigin.REAL: "a real log",
    LogOrigin.SYNTHETIC: "a synthetic log",
    LogOrigin.MIXED: "a real log and a synthetic one",
}


def _sessions() -> dict[tuple[str, str, str], WriteSession]:
    sessions: dict[tuple[str, str, str], WriteSession] | None = getattr(_own, "sessions", None)
    if sessions is None:
        sessions = _own.sessions = {}
    return sessions


def _completed() -> dict[tuple[str, str, str], str]:
    """The tasks that this thread is about to complete, by lake and cluster."""
    return getattr(_own, "completed", {})


def _is_written(record: ClusterRecord, table: str) -> bool:
    return record.writing is not None and table in record.writing.tables


def _union(some: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*some, *more]))


def _half_written(cluster: str, uri: str, unfinished: UnfinishedWrite) -> HalfWrittenError:
    inputs = f" from {', '.join(unfinished.inputs)}" if unfinished.inputs else ""
    return HalfWrittenError(
        f"Cluster {cluster!r} of {uri} is half-written: {unfinished.task}{inputs}, begun {unfinished.since} "
        f"by {unfinished.process}, did not end.",
        remedy="Run the same again, which completes it; or remove the cluster: `lucid remove-cluster "
        f"--cluster {cluster}`.",
    )
