"""Parts that a release may do without: settings beside the policy's, and perhaps a forecast that they ask.

A row of `OPTIONAL_PARTS` is all that a manifest, the building of a release and a retraining have to know of
one. What the settings mean is for those to check who act by them: models know nothing of the simulator.

This module needs the standard library only, as the manifest does.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from lucid_models.releases.manifest_fields import misfit

NODE_KIND = "node_demand"
LOAD_KIND = "inference_load"
WAITS_KIND = "waits"


@dataclass(frozen=True)
class OptionalPart:
    """One part: the manifest's field with its settings, and the kind of model that it may pin.

    It pins that model where its `setting` is "forecast", or wherever it is there (`setting` None).
    `since_version`: the format of manifests that first had the field; `lucid train COMMAND` trains the model.
    `what` is said of it in errors.
    """

    field: str
    kind: str
    setting: str | None
    since_version: int
    command: str
    what: str

    def asks_forecast(self, settings: Mapping[str, Any] | None) -> bool:
        """Whether these settings go by the forecast, so that the release has to pin it."""
        if settings is None or self.setting is None:
            return settings is not None
        return settings.get(self.setting) == "forecast"


OPTIONAL_PARTS = (
    OptionalPart("node_sleep", NODE_KIND, "control", 4, "nodes", "sleeping nodes"),
    OptionalPart("loaning", LOAD_KIND, "usage", 5, "inference", "servers on loan"),
    OptionalPart("waits", WAITS_KIND, None, 6, "waits", "waits"),
)
OPTIONAL_KINDS = tuple(part.kind for part in OPTIONAL_PARTS)


@dataclass(frozen=True)
class PartSettings:
    """The settings of the optional parts by their fields; None: the release says nothing of one."""

    node_sleep: Mapping[str, Any] | None = None
    loaning: Mapping[str, Any] | None = None
    waits: Mapping[str, Any] | None = None

    @property
    def asked_kinds(self) -> tuple[str, ...]:
        """The forecasts that the settings go by."""
        return tuple(part.kind for part in OPTIONAL_PARTS if part.asks_forecast(getattr(self, part.field)))


NO_PARTS = PartSettings()


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
