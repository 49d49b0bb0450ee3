"""Which clusters have releases in a registry, and which one is meant where none is named."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster_logs.errors import BadInputError, NotFoundError
from lucid_models.releases.manifest import OLD_RELEASE_NAME, RELEASE_PREFIX, cluster_of, release_name

if TYPE_CHECKING:  # the light client imports this module
    from lucid_models.registry import Registry


MIGRATED_TAG = "migrated"  # of the old registered model: when its releases were copied


def open_registry(tracking_uri: str) -> "Registry":
    """A registry whose releases lie where today's do; raises BadInputError for an older one."""
    from lucid_models.registry import Registry

    registry = Registry(tracking_uri)
    if registry.aliases(OLD_RELEASE_NAME) and MIGRATED_TAG not in registry.model_tags(OLD_RELEASE_NAME):
        raise old_layout(tracking_uri)
    return registry


def old_layout(tracking_uri: str) -> BadInputError:
    """The error that says what to do with a registry of an older version."""
    return BadInputError(
        f"{tracking_uri} holds the releases of all clusters in one registered model, {OLD_RELEASE_NAME}, as "
        "older versions of Lucid did.",
        remedy="Copy them to models of their clusters: lucid release migrate.",
    )


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
    return the_only(release_clusters(open_registry(tracking_uri)), where=tracking_uri)


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
