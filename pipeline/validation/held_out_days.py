"""On which days a release is to be judged: as many as it was built with, by default."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cluster_logs.log_span import busy_days, submission_span
from foundation.errors import BadInputError, NotFoundError, ReleaseRefusedError
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import ReleaseInfo, show_release
from pipeline.release.current_release import find_current_release
from pipeline.training.windows import DEFAULT_HOLD_OUT_DAYS

HOLD_OUT_TAG, LOG_END_TAG, JUDGED_END_TAG = "hold_out_days", "log_end", "held_out_end"
DAY = timedelta(days=1)


@dataclass(frozen=True)
class HeldOutDays:
    """The log's last `days` with jobs, of the log as it was at `as_of` (None: as it is)."""

    days: int
    as_of: datetime | None = None


USUAL_DAYS = HeldOutDays(DEFAULT_HOLD_OUT_DAYS)


def record_held_out(site: Site, release: ReleaseInfo, days: int) -> None:
    """Keep with a release how many days it was built to be judged on, and where the lake's log ended when it
    was built first.
    """
    registry = Registry(site.registry)
    registry.set_version_tag(release.name, release.version, HOLD_OUT_TAG, str(days))
    if site.lake:
        if LOG_END_TAG not in registry.version(release.name, release.version).tags:
            _, last = submission_span(site.lake, release.cluster)
            registry.set_version_tag(release.name, release.version, LOG_END_TAG, last.isoformat())
        if until := release.training.get("until"):
            end = busy_days(site.lake, release.cluster).after(datetime.fromisoformat(str(until)), days)
            registry.set_version_tag(release.name, release.version, JUDGED_END_TAG, end.isoformat())


@dataclass(frozen=True)
class UnjudgedDays:
    """Days that were in the lake when a release was built, behind those that it was built to be judged on: it
    was built as if the log had ended at `start`.
    """

    start: datetime
    end: datetime


def unjudged_days(tags: Mapping[str, str], trained_until: datetime) -> UnjudgedDays | None:
    """Return them by the tags of a release; None where there are none, or nothing says so."""
    if HOLD_OUT_TAG not in tags or LOG_END_TAG not in tags:
        return None
    stated = tags.get(JUDGED_END_TAG)
    start = datetime.fromisoformat(stated) if stated else trained_until + int(tags[HOLD_OUT_TAG]) * DAY
    end = datetime.fromisoformat(tags[LOG_END_TAG])
    return UnjudgedDays(start, end) if end > start else None


def held_out_as_built(site: Site, release: ReleaseInfo) -> HeldOutDays:
    """Return the days that a release was built to be judged on; of one that does not say, or that counted
    days without jobs as versions before did, all that it has not seen.

    Raises BadInputError when it does not say until when it learned, or has seen the whole log.
    """
    stated = release.training.get("until")
    if stated is None:
        raise BadInputError(
            f"Release {release.version} of {release.cluster} does not say until when it learned.",
            remedy="Say how many days to hold out: --hold-out-days.",
        )
    until = datetime.fromisoformat(str(stated))
    _, last = submission_span(site.lake, release.cluster)
    days = busy_days(site.lake, release.cluster)
    tag = Registry(site.registry).version(release.name, release.version).tags.get(HOLD_OUT_TAG)
    if tag is not None:
        end = days.after(until, int(tag))
        if last >= end:
            return HeldOutDays(int(tag), end if last > end else None)
    unseen = math.floor(days.between(until, last))
    if unseen < 1:
        raise BadInputError(
            f"Release {release.version} of {release.cluster} learned until {until:%Y-%m-%d %H:%M}, and the "
            f"log ends at {last:%Y-%m-%d %H:%M} UTC: there is no whole day with jobs to judge it on.",
            remedy="Ingest what came since, or train again with days held out (`lucid train ... "
            "--hold-out-days`).",
        )
    return HeldOutDays(unseen, None)


def held_out_of(
    site: Site, version: int | None, *, days: int | None = None, as_of: datetime | None = None
) -> HeldOutDays:
    """Return the days to judge a release on: `days`, else as many as it was built with.

    `version` None: the challenger. A release that cannot be read is refused on any days.
    """
    if days is not None:
        return HeldOutDays(days, as_of)
    try:
        release = show_release(
            tracking_uri=site.registry, cluster=site.cluster, alias="challenger", version=version
        )
    except ReleaseRefusedError:
        return HeldOutDays(DEFAULT_HOLD_OUT_DAYS, as_of)
    built = held_out_as_built(site, release)
    return HeldOutDays(built.days, as_of or built.as_of)


def usual_held_out(site: Site) -> int | None:
    """Return how many days the cluster's present release holds out; None without a release."""
    try:
        release = find_current_release(site, purpose="")
        return held_out_as_built(site, release).days
    except (NotFoundError, BadInputError):
        return None
