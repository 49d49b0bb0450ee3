"""The settings of a part that a release pins: at the place `release_settings` of a `Part`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PartOfRelease:
    """How a release is built with a part.

    - `field`: the manifest's, with the part's settings.
    - `pinned`: all of them, the chosen ones in place of their defaults; raises UnknownNameError for a setting
      that does not exist, BadInputError for a bad value.
    - `check_lake`: raises NotFoundError where a lake (its URI) lacks what the part lives on in a cluster.
    """

    field: str
    pinned: Callable[[Mapping[str, Any]], dict[str, Any]]
    check_lake: Callable[[str, str], None] | None = None
