"""Documents behind any URI, each written in one move, their digests, and copies of files in MLflow."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from foundation import strict_json
from foundation.process_lock import scratch_folder
from foundation.storage import read_bytes, write_bytes
from lucid_models.tracking_run import OpenRun


def digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of a document, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, allow_nan=False).encode()).hexdigest()


def write_json(uri: str, document: Mapping[str, Any]) -> None:
    """Write a document in one move."""
    write_bytes(uri, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def read_json(uri: str) -> dict[str, Any] | None:
    """Read a document; None when it is not there."""
    data = read_bytes(uri)
    return None if data is None else dict(strict_json.loads(data))


def store_files(uri: str, files: Iterable[Path]) -> tuple[str, ...]:
    """Copy local files below a URI, and return their URIs."""
    stored = []
    for file in files:
        stored.append(f"{uri}/{file.name}")
        write_bytes(stored[-1], file.read_bytes())
    return tuple(stored)


def log_stored(run: OpenRun, uris: Iterable[str]) -> None:
    """Log stored files with a run of MLflow; what is not there is left out."""
    with scratch_folder("experiment") as scratch:
        for uri in uris:
            data = read_bytes(uri)
            if data is not None:
                (scratch / uri.rpartition("/")[2]).write_bytes(data)
        run.log_folder(scratch)


def metric_name(text: str) -> str:
    """Return a name as MLflow takes it: letters, digits and _ - . space."""
    return "".join(c if c.isalnum() or c in "_-. " else "_" for c in text)[:200]
