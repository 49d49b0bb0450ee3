"""What is said where a registry does not say whose release is meant, or keeps releases as older versions did.

This module needs the standard library only: the light client says it too.
"""

from collections.abc import Sequence

from foundation.errors import BadInputError, NotFoundError
from lucid_models.releases.manifest import OLD_RELEASE_NAME

MIGRATED_TAG = "migrated"  # of the old registered model: when its releases were copied
REMOVED_TAG = "removed"  # of a cluster's registered model: when the cluster was taken out of the lake


def old_layout(tracking_uri: str) -> BadInputError:
    """The error that says what to do with a registry of an older version."""
    return BadInputError(
        f"{tracking_uri} holds the releases of all clusters in one registered model, {OLD_RELEASE_NAME}, as "
        "older versions of Lucid did.",
        remedy="Copy them to models of their clusters: lucid release migrate.",
    )


def no_release(where: str) -> NotFoundError:
    """The error that says how `where` comes to a first release."""
    return NotFoundError(
        f"No cluster has a release on {where}.",
        remedy="Build one: `lucid release build --cluster NAME`, or the DAG retrain_models.",
    )


def the_only(clusters: Sequence[str], *, where: str) -> str:
    """The one cluster of a list that is from `where`.

    Raises BadInputError where there are several, NotFoundError where there is none.
    """
    if not clusters:
        raise no_release(where)
    if len(clusters) > 1:
        raise BadInputError(
            f"Several clusters have releases on {where}: {', '.join(clusters)}.",
            remedy="Name one: --cluster NAME, or the form's field Cluster.",
        )
    return clusters[0]
