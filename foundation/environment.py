"""Settings that an installation gives by environment variables: where it keeps its state, switches, JSON."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foundation import strict_json
from foundation.errors import BadInputError

_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of everything that an installation keeps (LUCID_STATE_DIR, default `.lucid`)."""
    return Path(environment.get("LUCID_STATE_DIR", ".lucid")).absolute()


def read_switch(variable: str, *, default: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Return what a variable switches on or off; unset or empty: the default.

    Raises BadInputError for a word that is neither.
    """
    word = environment.get(variable, "").strip().lower()
    if not word:
        return default
    if word not in _ON + _OFF:
        raise BadInputError(
            f"{variable}={environment[variable]!r} is neither true nor false.",
            remedy="Set it to true or false.",
        )
    return word in _ON


def read_number(variable: str, *, default: int, environment: Mapping[str, str] = os.environ) -> int:
    """Return the whole number above 0 that a variable gives; unset or empty: the default.

    Raises BadInputError for anything else.
    """
    text = environment.get(variable, "").strip().replace("_", "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) < 2**63):
        raise BadInputError(
            f"{variable}={environment[variable]!r} is no whole number above 0.",
            remedy=f"Set it to one, such as {default}.",
        )
    return int(text[:20])


def read_json_object(variable: str, *, example: str) -> dict[str, Any]:
    """Return the JSON object that a variable holds; unset or empty: an empty one.

    Raises BadInputError, with the example, for anything else.
    """
    text = os.environ.get(variable, "").strip()
    try:
        values = strict_json.loads(text) if text else {}
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadInputError(f"{variable} is not JSON: {error}.", remedy=f"Write it as {example}.") from error
    if not isinstance(values, dict):
        raise BadInputError(f"{variable} is {values!r}, not an object.", remedy=f"Write it as {example}.")
    return values
