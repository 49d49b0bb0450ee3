"""Settings of parts in releases: what a release may do without, and perhaps a forecast that they ask.

An `OptionalPart` is all that a manifest, the building of a release and a retraining have to know of one. What
the settings mean is for those to check that act by them: models know nothing of the simulator.

This module needs the standard library only, as the manifest does.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from foundation.errors import UnknownNameError
from foundation.parts import at_place, lacking, manifest_fields, offered
from lucid_models.releases.manifest_fields import misfit

# The settings of parts by their fields; what is not there, the release says nothing of.
PartSettings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class OptionalPart:
    """What a release may say of one part (`foundation.parts.Part.manifest`).

    - `field`: the manifest's field with its settings; `what` is said of it in errors.
    - `kind`: the kind of model that it may pin: where its `setting` is "forecast", or wherever the field is
      there (`setting` None).
    - `settings`: place of the function that reads the settings, and raises BadInputError where they do not
      hold for a live cluster.
    - `check`: place of the function that takes the scorer that is pinned and the settings, and raises
      ReleaseRefusedError when they do not fit, or when an answer to a plain input makes no sense.
    """

    field: str
    what: str
    kind: str
    setting: str | None
    settings: str
    check: str

    def asks_forecast(self, settings: Mapping[str, Any] | None) -> bool:
        """Whether these settings go by the forecast, so that the release has to pin it."""
        if settings is None or self.setting is None:
            return settings is not None
        return settings.get(self.setting) == "forecast"

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInputError for settings that do not hold for a live cluster."""
        at_place(self.settings)(settings)


def optional_parts() -> dict[str, OptionalPart]:
    """What the installed parts add to releases, by field, the oldest field first."""
    places = offered("manifest")
    fields = dict.fromkeys((*manifest_fields(), *places))
    return {field: at_place(places[field]) for field in fields if field in places}


def optional_part(field: str) -> OptionalPart:
    """What a field says; raises NotFoundError for a part that is not installed, UnknownNameError for none."""
    parts = optional_parts()
    if field not in parts:
        raise lacking().get(f"field {field} of releases") or UnknownNameError(
            "part of a release", field, parts
        )
    return parts[field]


def optional_kinds() -> tuple[str, ...]:
    """The kinds of models that a release may do without."""
    return tuple(part.kind for part in optional_parts().values())


def asked_kinds(parts: PartSettings) -> tuple[str, ...]:
    """The kinds of models that settings of parts go by; errors as in `optional_part`."""
    asked = {field: optional_part(field) for field in parts}
    return tuple(part.kind for field, part in asked.items() if part.asks_forecast(parts[field]))


def check_part(part: OptionalPart, settings: object, pinned_kinds: Container[str], source: str) -> None:
    """Refuse settings that are no flat object, and a forecast that nothing reads or that is not there.

    Raises CorruptManifestError.
    """
    is_forecast_pinned = part.kind in pinned_kinds
    if settings is None:
        if is_forecast_pinned:
            raise misfit(source, part.field, settings, f"the settings of {part.what} that ask its forecast")
        return
    if not isinstance(settings, dict) or any(
        not isinstance(value, str | int | float) for value in settings.values()
    ):
        raise misfit(source, part.field, settings, "a flat object of settings, or null")
    if part.asks_forecast(settings) and not is_forecast_pinned:
        field = part.field if part.setting is None else f"{part.field}.{part.setting}"
        raise misfit(source, field, "forecast", "a setting that does without one")
