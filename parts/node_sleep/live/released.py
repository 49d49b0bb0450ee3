"""What a release says of sleeping nodes, as a live cluster goes by it."""

from collections.abc import Mapping
from typing import Any

from foundation.errors import BadInputError
from parts.node_sleep.replay.settings import SleepSettings


def check_released(settings: Mapping[str, Any]) -> None:
    """Refuse a control that no live cluster can be driven by, and settings that are none."""
    if SleepSettings.from_data(settings).control == "helios-artifact":
        raise BadInputError("The control 'helios-artifact' reads the future: it replays series only.")
