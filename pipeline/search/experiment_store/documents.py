"""An experiment's documents behind any URI, each written in one move, and their digests."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from foundation import strict_json
from foundation.storage import read_bytes, write_bytes


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
