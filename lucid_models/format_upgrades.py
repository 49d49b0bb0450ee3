"""Documents with one integer format version: older ones are brought up to date step by step, newer refused.

Needs the standard library alone: the light client reads releases and models with it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from foundation.errors import LucidError

Document = dict[str, Any]
Upgrades = Mapping[int, Callable[[Document], Document]]
"""Version n -> function from the document of version n to that of version n + 1."""


def upgrade_document(
    document: Document, upgrades: Upgrades, newest: int, *, source: str, error: type[LucidError]
) -> Document:
    """Return the document in the newest version; raises `error` for a version that is not one of ours."""
    version = document.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool):
        shown = repr(version)
        raise error(
            f"{source} has the format version {shown[:120]}, not an integer.",
            remedy="Train the model, or build the release, again.",
        )
    while version in upgrades:
        document = upgrades[version](document)
        version += 1
    if version != newest:
        raise error(
            f"{source} has format version {version}; this program reads up to version {newest}.",
            remedy="Upgrade the scheduler, or publish a release made by the same version.",
        )
    return document
