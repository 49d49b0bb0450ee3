"""What a release consists of in words that people read: its parts with their settings, and how two differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from foundation.errors import UnknownNameError
from foundation.jsonable import to_jsonable
from foundation.parts import hooks
from lucid_models.releases.store import ReleaseInfo
from simulator.policies.registry import policy_class

# The units at the end of settings' names.
_UNITS = {
    "s": "s",
    "ms": "ms",
    "h": "h",
    "hours": "h",
    "days": "days",
    "pct": "%",
    "gpus": "GPUs",
    "mib": "MiB",
    "gib": "GiB",
}


@dataclass(frozen=True)
class ReleaseSetting:
    """A setting by its name in words, with the unit; `value` is a number, a text, a list or a truth value."""

    what: str
    value: Any


@dataclass(frozen=True)
class ReleasePart:
    """One part of a release: the policy's settings, or a part that others do without."""

    title: str
    settings: Sequence[ReleaseSetting]


@dataclass(frozen=True)
class Difference:
    """A setting or a model that is not as in another release; None: one of the two has none."""

    what: str
    before: Any
    now: Any


def release_parts(release: ReleaseInfo) -> list[ReleasePart]:
    """Return the parts that a release has, the policy's settings first."""
    title = f"Settings of {release.policy} that are not its defaults"
    parts = [(title, not_defaults(release.policy, release.settings))]
    parts += [(title, document) for title, _, document in _optional_parts(release)]
    return [
        ReleasePart(title, [ReleaseSetting(*row) for row in _flat(document)])
        for title, document in parts
        if document
    ]


def not_defaults(policy: str, pinned: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings without those that are the policy's defaults: a release pins them all. Of a policy
    that is not installed here no defaults are known.
    """
    try:
        settings_class = getattr(policy_class(policy), "Settings", None)
    except UnknownNameError:
        return pinned
    defaults = {} if settings_class is None else to_jsonable(asdict(settings_class()))
    return {name: value for name, value in pinned.items() if name not in defaults or value != defaults[name]}


def _optional_parts(release: ReleaseInfo) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield each part that a release may do without: its title, its name, its settings (maybe none)."""
    for _, part in hooks("release_settings"):
        yield part.title, part.noun, release.parts.get(part.field, {})
    yield "Chosen from a Pareto front", "chosen from a front", release.choice or {}


def release_differences(release: ReleaseInfo, earlier: ReleaseInfo) -> list[Difference]:
    """Return what differs from an earlier release, in the order of the parts: policy, models, settings."""
    now, then = dict(_contents(release)), dict(_contents(earlier))
    return [
        Difference(what, then.get(what), now.get(what))
        for what in dict.fromkeys([*now, *then])
        if now.get(what) != then.get(what)
    ]


def setting_in_words(name: str) -> str:
    """Return a setting's name as words, its unit in brackets."""
    words, _, unit = name.rpartition("_")
    if words and unit in _UNITS:
        return f"{words.replace('_', ' ')} ({_UNITS[unit]})"
    return name.replace("_", " ")


def _contents(release: ReleaseInfo) -> Iterator[tuple[str, Any]]:
    yield "policy", release.policy
    yield "learned from jobs until", release.training["until"]
    for kind, pin in release.models.items():
        yield f"model of {kind.replace('_', ' ')}", f"version {pin['version']}"
    yield from _flat(release.settings)
    for _, name, document in _optional_parts(release):
        yield from _flat(document, f"{name}: ")


def _flat(document: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        words = f"{before}{setting_in_words(name)}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{words}: ")
        else:
            yield words, value
