"""A cluster out of the lake."""

from typing import Any

from foundation.errors import BadInputError
from lucid_airflow import settings
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.run_results import tell


class RemoveClusterOperator(LucidOperator):
    """Remove all that the lake holds of a cluster, once its name was typed again.

    Releases in the registry and pages of past runs stay: schedulers go on with the release that is live. The
    cluster is no longer shown, nor found where none is named, until a release of it is built again.
    """

    cluster: Any
    typed_again: Any
    lake_uri: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Remove; returns the rows of each table. Without the name typed again: says what would go."""
        from cluster_logs.lake import Lake
        from cluster_logs.removal import holdings, remove_cluster
        from lucid_models.releases.clusters import note_removal

        lake_uri = self.lake_uri or settings.lake_uri()
        if not self.cluster:
            there = ", ".join(Lake(lake_uri).clusters()) or "none"
            raise BadInputError("No cluster is named.", remedy=f"Name one of those with jobs: {there}.")
        held = holdings(lake_uri, self.cluster)
        if self.typed_again != self.cluster:
            raise BadInputError(
                f"Nothing was removed. Of cluster {self.cluster!r} the lake holds {held.in_words()}.",
                remedy="Type the cluster's name in the field 'Its name again' to remove all of it.",
            )
        note_removal(settings.tracking_uri(), self.cluster)
        gone = remove_cluster(lake_uri, self.cluster, progress=self.log_progress())
        tell(
            context,
            f"Cluster {self.cluster} was removed from the lake: {gone.in_words()}. Its releases and the "
            "pages of past runs stay, but the cluster is no longer shown.",
        )
        return gone.rows
