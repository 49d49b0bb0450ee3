"""Whether a release carries a wait model, as a form asks or as the champion does, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from foundation.errors import UnknownNameError
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.building import model_versions
from lucid_models.releases.optional_parts import PartSettings
from lucid_models.releases.store import ReleaseInfo
from parts.waits.live.settings import WaitAnswerSettings
from pipeline.release.part_settings import AskedOfParts, DecidedParts, PartOfRelease


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


WAIT_CHOICES = ("yes", "no")
FIELD = "waits"


@dataclass(frozen=True)
class WaitAnswersAsked:
    """What a form says: whether the release carries a wait model (None: as the champion), and, where it does,
    `least_jobs` in place of the champion's or the default (`WaitAnswerSettings`).
    """

    choice: Literal["yes", "no"] | None = None
    least_jobs: int | None = None

    def __post_init__(self) -> None:
        if self.choice not in (*WAIT_CHOICES, None):
            raise UnknownNameError("choice of answers about waits", str(self.choice), WAIT_CHOICES)


def decide_wait_answers(
    site: Site, champions: PartSettings, asked: WaitAnswersAsked, *, missing: str | None
) -> DecidedParts:
    """The champion's parts, with or without answers about waits.

    A release for which a wait model was asked is built without where the cluster has none; `missing`: why
    none was trained, a sentence. Raises BadInputError for a bad `least_jobs`.
    """
    if asked.choice == "no":
        without = {name: settings for name, settings in champions.items() if name != FIELD}
        return DecidedParts(without, "It carries no wait model, as the form asked.")
    if asked.choice is None and FIELD not in champions:
        return DecidedParts(
            champions, "It carries no wait model: the champion has none, and none was asked for."
        )
    whose = "as the champion does" if asked.choice is None else "as the form asked"
    if FIELD not in champions and not _has_model(site):
        why = (
            missing
            or "Hardly a job waited in what it would have learned from; the task train_waits says more."
        )
        return DecidedParts(champions, f"It carries no wait model, although the form asked for one. {why}")
    settings = _settings(champions.get(FIELD, {}), asked.least_jobs)
    return DecidedParts({**champions, FIELD: settings}, f"It carries a wait model, {whose}.")


def _has_model(site: Site) -> bool:
    return bool(model_versions(Registry(site.registry), "waits", site.cluster))


def _settings(champions: Mapping[str, Any], least_jobs: int | None) -> dict[str, Any]:
    """All settings of the part; as many recent jobs count as are needed, or more."""
    pinned = pinned_waits(champions)
    if least_jobs is None:
        return pinned
    return pinned_waits({"least_jobs": least_jobs, "recent_jobs": max(least_jobs, pinned["recent_jobs"])})


def _as_asked(asked: AskedOfParts) -> DecidedParts:
    least_jobs = asked.form.get("least_jobs")
    return decide_wait_answers(
        asked.site,
        asked.parts,
        WaitAnswersAsked(asked.form.get("wait_answers"), None if least_jobs is None else int(least_jobs)),
        missing=asked.reasons.get(FIELD),
    )


RELEASE_SETTINGS = PartOfRelease(
    FIELD,
    "Answers about waits",
    "answers about waits",
    pinned_waits,
    says=says_when_jobs_start,
    wanted=lambda form: form.get("wait_answers") == "yes",
    decide=_as_asked,
)
