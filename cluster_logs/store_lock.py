"""One writer of a cluster at a time over object storage, which has no locks.

Not all storage can create a file only where there is none. What all of it can do is show every reader what
was written before (S3 since 2020, GCS, Azure, MinIO). So a writer leaves a claim of its own and then looks
for others: of two that come at the same time at least the later sees the earlier, and a writer that sees
another claim withdraws its own and tries again. A holder renews its claim; one that was not renewed for
LEASE_S is a dead writer's, and is taken over.
"""

import json
import os
import random
import socket
import threading
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from foundation import strict_json

LEASE_S = 60.0
RENEW_EVERY_S = 10.0
_SUFFIX = ".claim"


class ClusterLock(Protocol):
    """What keeps other writers of a cluster away."""

    def acquire(self) -> bool:
        """Take the lock, if it is free; say whether it is ours."""

    def release(self) -> None:
        """Give it up."""

    def is_ours(self) -> bool:
        """Whether it is still ours: a lease may run out while its holder is kept from renewing it."""

    def owner(self) -> str | None:
        """The process that holds it now, described; None: no living one."""


class StoreLock:
    """A lock by claims in storage (see the module)."""

    def __init__(self, fs: pafs.FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = f"{folder}/.claims"
        self._name = f"{uuid.uuid4().hex}{_SUFFIX}"
        self._path = f"{self._folder}/{self._name}"
        self._renewed_s = 0.0
        self._stop: threading.Event | None = None
        self._renewing: threading.Thread | None = None

    def acquire(self) -> bool:
        """Take the lock, if it is free; say whether it is ours."""
        if self._stop is not None:
            return True
        self._fs.create_dir(self._folder, recursive=True)
        self._write()
        claims = self._claims()
        others = [claim for claim in claims if claim.base_name != self._name]
        mine = next((claim for claim in claims if claim.base_name == self._name), None)
        if mine is None or any(self._lives(claim, mine) for claim in others):
            self._delete(self._path)
            time.sleep(random.uniform(0.0, 0.2))  # noqa: S311  two that meet must not meet again
            return False
        for claim in others:
            self._delete(claim.path)
        self._stop = threading.Event()
        self._renewing = threading.Thread(target=self._renew, args=(self._stop,), daemon=True)
        self._renewing.start()
        return True

    def release(self) -> None:
        """Give it up; without it, do nothing."""
        stop, self._stop = self._stop, None
        if stop is not None and self._renewing is not None:
            stop.set()
            self._renewing.join()
            self._delete(self._path)

    def is_ours(self) -> bool:
        """Whether it is ours."""
        return self._stop is not None and _clock_s() - self._renewed_s < LEASE_S

    def owner(self) -> str | None:
        """The process that holds it, described; None: no living one."""
        for claim in self._claims():
            if claim.base_name != self._name and self._lives(claim, None):
                claimed = self._read(claim.path)
                return f"process {claimed.get('pid', '?')} on {claimed.get('host', 'an unknown machine')}"
        return None

    def _renew(self, stop: threading.Event) -> None:
        while not stop.wait(RENEW_EVERY_S):
            if not self.is_ours():
                return
            # What cannot be renewed runs out, and its holder notices (`is_ours`).
            with suppress(OSError, pa.ArrowException):
                self._write()

    def _write(self) -> None:
        content = {"host": socket.gethostname(), "pid": os.getpid(), "renewed": datetime.now(UTC).isoformat()}
        at_s = _clock_s()
        with self._fs.open_output_stream(self._path) as sink:
            sink.write(json.dumps(content).encode())
        self._renewed_s = at_s

    def _read(self, path: str) -> dict[str, object]:
        with suppress(OSError, pa.ArrowException, ValueError), self._fs.open_input_file(path) as source:
            content = strict_json.loads(source.read())
            if isinstance(content, dict):
                return content
        return {}

    def _claims(self) -> list[pafs.FileInfo]:
        selector = pafs.FileSelector(self._folder, allow_not_found=True)
        return [info for info in self._fs.get_file_info(selector) if info.base_name.endswith(_SUFFIX)]

    def _lives(self, claim: pafs.FileInfo, mine: pafs.FileInfo | None) -> bool:
        """Whether a claim was renewed lately: by the storage's own clock, where it keeps one."""
        if mine is not None and claim.mtime is not None and mine.mtime is not None:
            return bool((mine.mtime - claim.mtime).total_seconds() < LEASE_S)
        try:
            renewed = datetime.fromisoformat(str(self._read(claim.path).get("renewed")))
        except ValueError:  # it is being written, or given up
            return bool(self._fs.get_file_info(claim.path).type == pafs.FileType.File)
        return (datetime.now(UTC) - renewed).total_seconds() < LEASE_S

    def _delete(self, path: str) -> None:
        with suppress(OSError, pa.ArrowException):
            self._fs.delete_file(path)


def _clock_s() -> float:
    """Seconds that go on while the machine sleeps: a lease runs out then, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
