"""Companions by name: those that settings alone make, as parts offer them (`Part.companions`)."""

from collections.abc import Callable, Mapping
from typing import Any

from foundation.errors import UnknownNameError
from foundation.parts import at_place, lacking, offered
from simulator.companion import Companion


def companion_names() -> list[str]:
    """Return the names of all companions that settings make."""
    return sorted(offered("companions"))


def companion_of(name: str, settings: Mapping[str, Any], seed: int = 0) -> Companion:
    """Make a companion of settings; what it draws, it draws with `seed`.

    Raises UnknownNameError for a name or a setting that does not exist, BadInputError for a bad value,
    NotFoundError for a companion of a part that is not installed.
    """
    make: Callable[[Mapping[str, Any], int], Companion] = at_place(companion_place(name))
    return make(settings, seed)


def companion_place(name: str) -> str:
    """Return the place of the function that makes a companion; raises as `companion_of`."""
    place = offered("companions").get(name)
    if place is None:
        raise lacking().get(f"companion {name}") or UnknownNameError("companion", name, companion_names())
    return place
