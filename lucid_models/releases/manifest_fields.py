"""Fields of a manifest, read strictly; every error says where, what stands there and what should.

This module needs the standard library only, as the manifest does.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from foundation.errors import ReleaseRefusedError


class CorruptManifestError(ReleaseRefusedError):
    """A manifest is not what its format says it is."""


def object_of(
    value: object, fields: tuple[str, ...], place: str, *, optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a JSON object that has these fields and no others."""
    if not isinstance(value, dict):
        raise CorruptManifestError(f"{place} is {value!r}, not an object.", remedy="Build the release again.")
    missing = [field for field in fields if field not in value]
    unknown = sorted(field for field in value if field not in (*fields, *optional))
    if missing or unknown:
        raise CorruptManifestError(
            f"{place} lacks the fields {missing} and has the unknown fields {unknown}.",
            remedy="Build the release again with this version of the program.",
        )
    return value


def text_of(data: Mapping[str, Any], field: str, place: str) -> str:
    """Return a field that holds a text."""
    value = data[field]
    if not isinstance(value, str) or not 0 < len(value) <= 1_000:
        raise misfit(place, field, value, "a text of 1 to 1,000 characters")
    return value


def positive_of(data: Mapping[str, Any], field: str, place: str) -> int:
    """Return a field that holds a positive integer."""
    value = data[field]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**53:
        raise misfit(place, field, value, "a positive integer")
    return value


def time_of(value: object, place: str, field: str) -> str:
    """Return an ISO time that has an offset."""
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise misfit(place, field, value, "an ISO time with its offset, such as 2020-09-01T00:00:00+00:00")
    return str(value)


def misfit(place: str, field: str, value: object, expected: str) -> CorruptManifestError:
    """Return the error that names a field, what stands there and what should."""
    text = repr(value)
    shown = text if len(text) <= 120 else text[:117] + "..."
    return CorruptManifestError(
        f"{place}: {field} is {shown}, not {expected}.", remedy="Build the release again."
    )
