"""The settings of answers about waits that a release pins."""

from collections.abc import Mapping
from typing import Any

from lucid_models.releases.store import ReleaseInfo
from parts.waits.live.settings import WaitAnswerSettings


def pinned_waits(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of answers about waits, the chosen ones in place of their defaults.

    Raises UnknownNameError for a setting that does not exist, BadInputError for a bad value.
    """
    return WaitAnswerSettings.from_data(chosen).to_data()


def says_when_jobs_start(release: ReleaseInfo) -> str:
    """Return what answers when waiting jobs start, where a scheduler follows the release."""
    if "waits" not in release.parts:
        return (
            "When a waiting job starts is said by playing the queue forward alone: the release carries no "
            "wait model. The form of retrain_models asks for one (A wait model says when jobs start)."
        )
    version = release.models["waits"]["version"]
    return (
        f"When a waiting job starts is said by the wait model (version {version}) or by playing the "
        "queue forward, whichever was off by less on jobs that started lately."
    )
