"""The settings of servers on loan that a release pins."""

from collections.abc import Mapping
from typing import Any

from cluster_logs.lake import Lake
from foundation.errors import NotFoundError
from parts.lending.replay.released_loans import ReleasedLoans
from pipeline.release.part_settings import PartOfRelease


def pinned_loaning(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of servers on loan, the chosen ones in place of their defaults.

    Raises UnknownNameError for a setting that does not exist, BadInputError for a bad value.
    """
    return ReleasedLoans.from_data(chosen).to_data()


def check_inference_load(lake_uri: str, cluster: str) -> None:
    """Raise NotFoundError where the lake has no inference load of a cluster: nothing can be lent there."""
    if not Lake(lake_uri).dates(cluster, "inference_load"):
        raise NotFoundError(
            f"The lake {lake_uri} has no inference load of cluster {cluster!r}: there is nothing to lend.",
            remedy="Ingest it (`lucid ingest --format inference-load`, or the form of ingest_logs), or build "
            "the release without --loaning.",
        )


RELEASE_SETTINGS = PartOfRelease(
    "loaning", "Servers on loan from inference", "servers on loan", pinned_loaning, check_inference_load
)
