"""The settings of sleeping nodes that a release pins."""

from collections.abc import Mapping
from typing import Any

from foundation.errors import BadInputError
from parts.node_sleep.replay.settings import SleepSettings
from pipeline.release.part_settings import PartOfRelease


def pinned_node_sleep(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of the control of sleeping nodes, the chosen ones in place of their defaults.

    Raises UnknownNameError for a setting that does not exist, BadInputError for a bad value and for the
    control that only replays series.
    """
    settings = SleepSettings.from_data(chosen)
    if settings.control == "helios-artifact":
        raise BadInputError(
            "A release cannot run the control 'helios-artifact': it reads the future.",
            remedy="Use 'forecast' or 'buffer'.",
        )
    return settings.to_data()


RELEASE_SETTINGS = PartOfRelease("node_sleep", "Sleeping nodes", "sleeping nodes", pinned_node_sleep)
