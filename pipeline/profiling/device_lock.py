"""One measurement at a time on a device: tasks of a machine wait for each other."""

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foundation.progress import Progress, silent


@contextmanager
def only_user_of(device: str, progress: Progress = silent) -> Iterator[None]:
    """Wait until no other task of this machine measures on the device, and keep them off it.

    The lock ends with the process, whatever ends it.
    """
    name = hashlib.sha256(device.encode()).hexdigest()[:12]
    place = Path(tempfile.gettempdir()) / f"lucid-device-{os.getuid()}-{name}.lock"
    handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        waited = 0
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress(waited, None, f"waiting for device {device}")
                waited += 1
                time.sleep(1.0)
        yield
    finally:
        os.close(handle)
