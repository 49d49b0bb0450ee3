"""A part of a release beside its policy and models: at the place `release_settings` of a `Part`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foundation.errors import UnknownNameError
from foundation.parts import hooks, lacking
from lucid_models.releases.store import ReleaseInfo


def _says_nothing(release: ReleaseInfo) -> str:
    return ""


@dataclass(frozen=True)
class PartOfRelease:
    """How a release is built with a part, and what its page says of it.

    - `field`: the manifest's, with the part's settings.
    - `title`: above the settings on the release's page; `noun`: before one that differs from another release.
    - `pinned`: all settings, the chosen ones in place of their defaults; raises UnknownNameError for one that
      does not exist, BadInputError for a bad value.
    - `check_lake`: raises NotFoundError where a lake (its URI) lacks what the part lives on in a cluster.
    - `says`: a sentence below the models of any release, with the part or without.
    """

    field: str
    title: str
    noun: str
    pinned: Callable[[Mapping[str, Any]], dict[str, Any]]
    check_lake: Callable[[str, str], None] | None = None
    says: Callable[[ReleaseInfo], str] = _says_nothing


def part_of_release(field: str) -> PartOfRelease:
    """What a field says; raises NotFoundError for a part that is not installed, UnknownNameError for none."""
    parts: dict[str, PartOfRelease] = {found.field: found for _, found in hooks("release_settings")}
    if field not in parts:
        raise lacking().get(f"field {field} of releases") or UnknownNameError(
            "part of a release", field, parts
        )
    return parts[field]
