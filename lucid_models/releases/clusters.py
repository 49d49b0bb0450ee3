"""Which clusters have releases in a registry, and which one is meant where none is named."""

from datetime import UTC, datetime

from lucid_models.mlflow_server import is_unwritten
from lucid_models.registry import Registry
from lucid_models.releases.manifest import RELEASE_PREFIX, cluster_of, release_name
from lucid_models.releases.only_cluster import no_release, the_only

REMOVED_TAG = "removed"  # of a cluster's registered model: when the cluster was taken out of the lake


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
    registry, name = Registry(tracking_uri), release_name(cluster)
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
    return the_only(release_clusters(Registry(tracking_uri)), where=tracking_uri)
