"""Settings of which several values are tried."""

from collections.abc import Mapping
from itertools import product
from typing import Any

from foundation.errors import BadInputError


def combinations(values: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return every combination of settings' values; a value that is no list is the only one."""
    if not isinstance(values, Mapping):
        raise BadInputError(f"{values!r} are no settings.", remedy='Write {"buffer_nodes": [1, 5]}.')
    tried = {name: value if isinstance(value, list | tuple) else [value] for name, value in values.items()}
    return tuple(dict(zip(tried, combined, strict=True)) for combined in product(*tried.values()) if combined)
