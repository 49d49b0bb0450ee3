"""Which clusters have releases in a registry, and which one is meant where none is named."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster_logs.errors import BadInputError, NotFoundError
from lucid_models.releases.manifest import RELEASE_PREFIX, cluster_of, release_name

if TYPE_CHECKING:  # the light client imports this module
    from lucid_models.registry import Registry


def release_clusters(registry: "Registry") -> list[str]:
    """The clusters that have a release, by name."""
    return sorted(
        cluster
        for name, aliases in registry.models_named(RELEASE_PREFIX).items()
        if aliases and (cluster := cluster_of(name)) is not None
    )


def which_cluster(tracking_uri: str, named: str | None) -> str:
    """The cluster that is named, else the only one that has a release.

    Raises BadInputError where several have one, NotFoundError where none has.
    """
    if named:
        release_name(named)
        return named
    from lucid_models.registry import Registry

    return the_only(release_clusters(Registry(tracking_uri)), where=tracking_uri)


def the_only(clusters: Sequence[str], *, where: str) -> str:
    """The one cluster of a list; errors as in `which_cluster`. `where` the list is from."""
    if not clusters:
        raise NotFoundError(
            f"No cluster has a release on {where}.",
            remedy="Build one: `lucid release build --cluster NAME`, or the DAG retrain_models.",
        )
    if len(clusters) > 1:
        raise BadInputError(
            f"Several clusters have releases on {where}: {', '.join(clusters)}.",
            remedy="Name one: --cluster NAME, or the form's field Cluster.",
        )
    return clusters[0]
