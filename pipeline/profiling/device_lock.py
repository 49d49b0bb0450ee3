"""One measurement at a time on a device: tasks of a machine wait for each other."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foundation.process_lock import ProcessLock, acquire_within
from foundation.progress import Progress, silent


@contextmanager
def only_user_of(device: str, progress: Progress = silent) -> Iterator[None]:
    """Wait until no other task of this machine measures on the device, and keep them off it.

    The lock ends with the process, whatever ends it.
    """
    name = hashlib.sha256(device.encode()).hexdigest()[:12]
    place = Path(tempfile.gettempdir()) / f"lucid-device-{os.getuid()}-{name}.lock"
    with ProcessLock(place) as lock:
        acquire_within(
            lock, None, lambda waited_s: progress(int(waited_s), None, f"waiting for device {device}")
        )
        yield
