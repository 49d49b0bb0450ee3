"""Brings releases of older versions, which lay in one registered model, to the models of their clusters.

    lucid-release 4 (cluster venus, champion)  ->  lucid-release-venus 1 (champion)

Copied is what an alias names, and the newest release of each cluster. Each copy's manifest names its new
model, so its digest is a new one: a verdict is checked as it was given, and then given on the copy, with what
it was given on before. The old model keeps everything, for schedulers of the version before; the tag
`migrated` of it comes last. Every step may be killed and run again.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from foundation import strict_json
from foundation.errors import NotFoundError, ReleaseRefusedError
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.aliases import CHALLENGER, CHAMPION, PREVIOUS, settle
from lucid_models.releases.approval import APPROVED, VerdictTags
from lucid_models.releases.building import register_release
from lucid_models.releases.files import load_release_scorers
from lucid_models.releases.layout import MIGRATED_TAG
from lucid_models.releases.lifecycle import store_verdict
from lucid_models.releases.manifest import (
    MANIFEST_FILE,
    OLD_RELEASE_NAME,
    VERDICT_FILE,
    ReleaseManifest,
    parse_manifest,
)
from lucid_models.releases.store import check_verdict, read_verdict

# Tags that belong to the copy itself.
_OWN_TAGS = ("cluster", "policy", "content_sha256", "manifest_sha256", "simulated_profiles", "synthetic_logs")
# What is wrong with one release, and not with the server.
_NOT_WHOLE = (ReleaseRefusedError, NotFoundError)


@dataclass(frozen=True)
class MigratedRelease:
    """A release that was copied (`version` None: it was not) and what is to be said of it."""

    cluster: str
    old_version: int
    version: int | None
    aliases: tuple[str, ...]
    remark: str


def migrate_releases(*, tracking_uri: str) -> list[MigratedRelease]:
    """Copy the releases of the one old registered model to those of their clusters; again: what is left.

    Returns what became of each, none where there is nothing to migrate. A release that does not verify is
    left behind, with the reason as its remark; so is an alias that schedulers follow on a release whose
    verdict does not approve it.
    """
    registry = Registry(tracking_uri)
    settle(registry, OLD_RELEASE_NAME)
    old = {release.version: release for release in registry.versions(OLD_RELEASE_NAME)}
    if not old:
        return []
    wanted = _aliases_by_release(old, registry.aliases(OLD_RELEASE_NAME))
    done = [_migrate(registry, old[version], aliases) for version, aliases in sorted(wanted.items())]
    registry.set_model_tag(OLD_RELEASE_NAME, MIGRATED_TAG, datetime.now(UTC).isoformat(timespec="seconds"))
    return done


def _aliases_by_release(
    old: Mapping[int, RegisteredVersion], aliases: Mapping[str, int]
) -> dict[int, list[str]]:
    """The releases to copy, each with its aliases among its cluster's.

    Another cluster's release may have taken `champion`: what it replaced, `previous`, is then its own
    cluster's champion.
    """
    wanted: dict[int, list[str]] = {}
    for cluster in sorted({release.tags.get("cluster", "") for release in old.values()}):
        own = [version for version, release in old.items() if release.tags.get("cluster", "") == cluster]
        live = [aliases[alias] for alias in (CHAMPION, PREVIOUS) if aliases.get(alias) in own]
        for alias, version in zip((CHAMPION, PREVIOUS), live, strict=False):
            wanted.setdefault(version, []).append(alias)
        newest = aliases[CHALLENGER] if aliases.get(CHALLENGER) in own else max(own)
        wanted.setdefault(newest, []).append(CHALLENGER)
    return wanted


def _migrate(registry: Registry, release: RegisteredVersion, aliases: list[str]) -> MigratedRelease:
    cluster = release.tags.get("cluster", "")
    try:
        manifest, files = _read_old(registry, release)
        copy = register_release(registry, manifest, files)
        for key, value in release.tags.items():
            if key not in _OWN_TAGS and not key.startswith("verdict"):
                if key.endswith("_from_release"):  # a number of the old model
                    value = f"{release.name}/{value}"
                registry.set_version_tag(manifest.name, copy, key, value)
        registry.set_version_tag(manifest.name, copy, "migrated_from", f"{release.name}/{release.version}")
    except _NOT_WHOLE as error:
        return MigratedRelease(cluster, release.version, None, (), f"It was left behind: {error}")
    remark = _migrate_verdict(registry, release, manifest, copy)
    copied_aliases = []
    for alias in aliases:
        if alias == CHALLENGER or not remark:
            if alias not in registry.aliases(manifest.name):
                registry.set_alias(manifest.name, alias, copy)
            copied_aliases.append(alias)
    if len(copied_aliases) < len(aliases):
        remark = f"It is not made {' and '.join(sorted(set(aliases) - set(copied_aliases)))}: {remark}"
    return MigratedRelease(cluster, release.version, copy, tuple(copied_aliases), remark)


def _read_old(registry: Registry, release: RegisteredVersion) -> tuple[ReleaseManifest, dict[str, bytes]]:
    """The manifest as one of today, and its files, verified."""
    payload = registry.read_version_file(release.name, release.version, MANIFEST_FILE)
    if hashlib.sha256(payload).hexdigest() != release.tags.get("manifest_sha256"):
        raise ReleaseRefusedError("Its manifest is not the one that its tag pins.")
    manifest = parse_manifest(payload)
    if manifest.cluster != release.tags.get("cluster"):
        raise ReleaseRefusedError(f"Its manifest is of cluster {manifest.cluster!r}, its tag says another.")
    files = {
        pin.file: registry.read_version_file(release.name, release.version, pin.file)
        for pin in manifest.models.values()
    }
    load_release_scorers(manifest, files)
    return manifest, files


def _migrate_verdict(
    registry: Registry, release: RegisteredVersion, manifest: ReleaseManifest, copy: int
) -> str:
    """Give the verdict on the copy, unless it has one; returns why it does not approve it, or nothing."""
    made = registry.version(manifest.name, copy)
    try:
        if not _is_judged(registry, made):
            store_verdict(registry, made, _old_verdict(registry, release))
            made = registry.version(manifest.name, copy)
        check_verdict(registry, made)
    except _NOT_WHOLE as error:
        return str(error)
    return ""


def _is_judged(registry: Registry, release: RegisteredVersion) -> bool:
    try:
        return read_verdict(registry, release) is not None
    except ReleaseRefusedError:  # killed while its tags were written
        return False


def _old_verdict(registry: Registry, release: RegisteredVersion) -> dict[str, Any]:
    """The verdict, verified as it was given; it says on what that was."""
    tags = VerdictTags.of(release.tags)
    if tags.word is None or tags.run_id is None:
        raise ReleaseRefusedError("It has no verdict.", remedy="Validate the copy.")
    payload = registry.read_run_file(tags.run_id, VERDICT_FILE)
    given_on = {
        "name": release.name,
        "version": release.version,
        "manifest_sha256": release.tags.get("manifest_sha256"),
    }
    whole = hashlib.sha256(payload).hexdigest() == tags.sha256
    verdict: Any = strict_json.loads(payload) if whole else None
    if not isinstance(verdict, dict) or verdict.get("release") != given_on:
        raise ReleaseRefusedError("Its verdict was changed or given on another.", remedy="Validate the copy.")
    if verdict.get("approved") is not (tags.word == APPROVED):
        raise ReleaseRefusedError("Its verdict says another word than its tag.", remedy="Validate the copy.")
    return {**verdict, "migrated_from": {**given_on, "verdict_run_id": tags.run_id}}
