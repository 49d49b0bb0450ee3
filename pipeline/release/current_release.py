"""Which release a cluster goes by at present, and what a new one keeps of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foundation.errors import NotFoundError
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.aliases import CHAMPION
from lucid_models.releases.clusters import release_clusters
from lucid_models.releases.lifecycle import ReleaseInfo, show_release
from lucid_models.releases.manifest import DEFAULT_POLICY, release_name
from lucid_models.releases.optional_parts import PartSettings
from lucid_models.releases.store import ALLOW_SIMULATED
from pipeline.release.release_settings import pinned_settings


@dataclass(frozen=True)
class PolicyOfRelease:
    """What a release runs, how that was chosen, and the settings of its optional parts."""

    policy: str
    settings: Mapping[str, Any]
    choice: Mapping[str, Any] | None
    parts: PartSettings = field(default_factory=dict)


def find_current_release(site: Site, *, purpose: str) -> ReleaseInfo:
    """The cluster's champion, else its newest release.

    Raises NotFoundError when the cluster has none; `purpose` says what it was wanted for.
    """
    try:
        return show_release(tracking_uri=site.registry, cluster=site.cluster)
    except NotFoundError:
        pass
    newest = next(iter(Registry(site.registry).versions(release_name(site.cluster))), None)
    if newest is not None:
        return show_release(tracking_uri=site.registry, cluster=site.cluster, version=newest.version)
    raise NotFoundError(
        f"There is no release of cluster {site.cluster!r} {purpose} on {site.registry}.",
        remedy="Build one: `lucid release build`, or the DAG retrain_models.",
    )


def clusters_with_champion(tracking_uri: str) -> list[str]:
    """Return the clusters with a release for schedulers to follow, by name."""
    registry = Registry(tracking_uri)
    return [name for name in release_clusters(registry) if CHAMPION in registry.aliases(release_name(name))]


def kept_policy(site: Site) -> PolicyOfRelease:
    """What a release with new models keeps running: the champion's policy where a person chose it.

    A configuration that was picked stays until another is picked. Lucid's settings are the defaults of the
    day, which `tune_system` may better. That simulated profiles are allowed stays as well, and so do the
    settings of its parts.
    """
    try:
        champion = show_release(tracking_uri=site.registry, cluster=site.cluster)
    except NotFoundError:
        return PolicyOfRelease(DEFAULT_POLICY, pinned_settings(), None)
    if champion.policy == DEFAULT_POLICY:
        allowed = {name: value for name, value in champion.settings.items() if name == ALLOW_SIMULATED}
        return PolicyOfRelease(DEFAULT_POLICY, pinned_settings(allowed), None, champion.parts)
    settings = pinned_settings(champion.settings, champion.policy)
    return PolicyOfRelease(champion.policy, settings, champion.choice, champion.parts)
