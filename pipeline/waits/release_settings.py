"""The settings of answers about waits that a release pins."""

from collections.abc import Mapping
from typing import Any

from live_scheduler.waits.settings import WaitAnswerSettings
from pipeline.release.part_settings import PartOfRelease


def pinned_waits(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of answers about waits, the chosen ones in place of their defaults.

    Raises UnknownNameError for a setting that does not exist, BadInputError for a bad value.
    """
    return WaitAnswerSettings.from_data(chosen).to_data()


RELEASE_SETTINGS = PartOfRelease("waits", pinned_waits)
