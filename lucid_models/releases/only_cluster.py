"""Which cluster is meant where none is named: the only one there is.

This module needs the standard library only: the light client says it too.
"""

from collections.abc import Sequence

from foundation.errors import BadInputError, NotFoundError


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
