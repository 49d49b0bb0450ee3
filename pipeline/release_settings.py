"""The settings that a release pins: all of the Lucid policy, so that a new default changes no old release."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lucid_models.release_store import ALLOW_SIMULATED
from simulator.policies.lucid import LucidSettings
from simulator.policies.registry import load_policy


def pinned_settings(chosen: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return Lucid's settings with the chosen ones in place of their defaults.

    Raises UnknownNameError for a setting that does not exist, BadInputError for a bad value.
    """
    given = dict(chosen or {})
    allowed = {ALLOW_SIMULATED: given.pop(ALLOW_SIMULATED)} if ALLOW_SIMULATED in given else {}
    load_policy("lucid", given)
    return {**asdict(LucidSettings(**given)), **allowed}
