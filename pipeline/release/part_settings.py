"""A part of a release beside its policy and models: at the place `release_settings` of a `Part`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from foundation.errors import UnknownNameError
from foundation.parts import hooks, lacking
from foundation.site import Site
from lucid_models.releases.optional_parts import PartSettings, optional_part
from lucid_models.releases.store import ReleaseInfo


def _says_nothing(release: ReleaseInfo) -> str:
    return ""


@dataclass(frozen=True)
class AskedOfParts:
    """What a new release is asked of its parts.

    - `parts`: those of the champion, each with its settings, by field of the manifest.
    - `form`: what the form says of them, by name; None: nothing.
    - `reasons`: why no model of a part was trained, a sentence by kind.
    """

    parts: PartSettings
    form: Mapping[str, Any]
    reasons: Mapping[str, str]
    site: Site


@dataclass(frozen=True)
class DecidedParts:
    """A release's optional parts, and the sentence that says what was decided of one of them, and why."""

    parts: PartSettings
    sentence: str


@dataclass(frozen=True)
class PartOfRelease:
    """How a release is built with a part, and what its page says of it.

    - `field`: the manifest's, with the part's settings.
    - `title`: above the settings on the release's page; `noun`: before one that differs from another release.
    - `pinned`: all settings, the chosen ones in place of their defaults; raises UnknownNameError for one that
      does not exist, BadInputError for a bad value.
    - `check_lake`: raises NotFoundError where a lake (its URI) lacks what the part lives on in a cluster.
    - `says`: a sentence below the models of any release, with the part or without.
    - `wanted`: whether a form asks for the part's model, which is then trained if there is none to keep.
    - `decide`: the parts of a new release, with or without this one; None: as the champion has it.
    """

    field: str
    title: str
    noun: str
    pinned: Callable[[Mapping[str, Any]], dict[str, Any]]
    check_lake: Callable[[str, str], None] | None = None
    says: Callable[[ReleaseInfo], str] = _says_nothing
    wanted: Callable[[Mapping[str, Any]], bool] = lambda form: False
    decide: Callable[[AskedOfParts], DecidedParts] | None = None


def part_of_release(field: str) -> PartOfRelease:
    """What a field says; raises NotFoundError for a part that is not installed, UnknownNameError for none."""
    parts: dict[str, PartOfRelease] = {found.field: found for _, found in hooks("release_settings")}
    if field not in parts:
        raise lacking().get(f"field {field} of releases") or UnknownNameError(
            "part of a release", field, parts
        )
    return parts[field]


def wanted_kinds(form: Mapping[str, Any]) -> list[str]:
    """Return the kinds of models that a form asks for."""
    return [optional_part(found.field).kind for _, found in hooks("release_settings") if found.wanted(form)]


def decided_parts(asked: AskedOfParts) -> DecidedParts:
    """Return the parts of a new release, as the form asks, else as the champion has them, and why."""
    sentences = []
    for _, found in hooks("release_settings"):
        if found.decide is not None:
            decided = found.decide(asked)
            asked = replace(asked, parts=decided.parts)
            sentences.append(decided.sentence)
    return DecidedParts(asked.parts, " ".join(sentences))
