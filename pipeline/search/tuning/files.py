"""A study's documents: JSON behind any URI of storage, each written in one move."""

import json
from collections.abc import Mapping
from typing import Any

from foundation.storage import locate, write_atomically
from pipeline.search.sweeps.inputs import read_bytes


def write_json(uri: str, document: Mapping[str, Any]) -> None:
    """Write a document in one move."""
    fs, path = locate(uri)
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    write_atomically(fs, path, lambda sink: sink.write(text.encode()))


def read_json(uri: str) -> dict[str, Any] | None:
    """Read a document; None when it is not there."""
    data = read_bytes(uri)
    return None if data is None else dict(json.loads(data))
