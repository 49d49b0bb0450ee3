"""Which clusters have releases in a registry, and which one is meant where none is named."""

from datetime import UTC, datetime

from lucid_models.mlflow_server import is_unwritten
from lucid_models.registry import Registry
from lucid_models.releases.layout import MIGRATED_TAG, REMOVED_TAG, no_release, old_layout, the_only
from lucid_models.releases.manifest import OLD_RELEASE_NAME, RELEASE_PREFIX, cluster_of, release_name


def open_registry(tracking_uri: str) -> Registry:
    """A registry whose releases lie where today's do; raises BadInputError for an older one."""
    registry = Registry(tracking_uri)
    if registry.aliases(OLD_RELEASE_NAME) and MIGRATED_TAG not in registry.model_tags(OLD_RELEASE_NAME):
        raise old_layout(tracking_uri)
    return registry


def release_clusters(registry: Registry) -> list[str]:
    """The clusters that have a release and were not removed, by name."""
    return sorted(
        cluster
        for name, aliases in registry.models_named(RELEASE_PREFIX, without_tag=REMOVED_TAG).items()
        if aliases and (cluster := cluster_of(name)) is not None
    )


def note_removal(tracking_uri: str, cluster: str) -> None:
    """Leave a cluster out of what is shown and found by itself, until a release of it is built again.

    Its releases stay, and schedulers that follow them go on.
    """
    if is_unwritten(tracking_uri):
        return
    registry, name = open_registry(tracking_uri), release_name(cluster)
    if registry.aliases(name):
        registry.set_model_tag(name, REMOVED_TAG, datetime.now(UTC).isoformat(timespec="seconds"))


def which_cluster(tracking_uri: str, named: str | None) -> str:
    """The cluster that is named, else the only one that has a release.

    Raises BadInputError where several have one, NotFoundError where none has.
    """
    if named:
        release_name(named)
        return named
    if is_unwritten(tracking_uri):
        raise no_release(tracking_uri)
    return the_only(release_clusters(open_registry(tracking_uri)), where=tracking_uri)
