"""How many nodes were busy, and in which other state, into the lake."""

from typing import TYPE_CHECKING, Any

from lucid_airflow import settings
from lucid_airflow.operators.series import IngestSeriesOperator

if TYPE_CHECKING:
    from pipeline.ingest.measured_series import RecordedSeries


class IngestNodeStatesOperator(IngestSeriesOperator):
    """Count the cluster's nodes by state as a published sequence, Prometheus or Slurm says.

    Prometheus is asked where `LUCID_NODE_QUERIES` says how. Without any of them the fewest nodes that
    hold the jobs are derived; skipped where the jobs do not tell.
    """

    words = "the counts of nodes"
    file_field = "node_states_uri"

    source_format: Any
    node_states_uri: Any = None

    def queries(self) -> list[str]:
        """Return a query a state."""
        return settings.node_queries()

    def ingest(self, source: "RecordedSeries") -> dict[str, Any]:
        """Count, or derive."""
        from pipeline.ingest.node_states import ingest_recorded_counts

        return ingest_recorded_counts(source, self.source_format, self.log_progress())
