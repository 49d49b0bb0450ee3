"""Parts of an object of Kubernetes, any of which may be missing or null."""

from collections.abc import Mapping, Sequence
from typing import Any


def part(raw: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path of an object; an empty one where there is none."""
    for name in path:
        raw = raw.get(name) or {}
    return raw


def entries(raw: Mapping[str, Any], *path: str) -> Sequence[Any]:
    """Return the list at a path of an object; an empty one where there is none."""
    *above, last = path
    return part(raw, *above).get(last) or []
