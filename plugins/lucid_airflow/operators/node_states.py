"""How many nodes were busy, and in which other state, into the lake."""

from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow import settings
from lucid_airflow.handover import data_interval
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.operators.row_accounts import tell_rows


class IngestNodeStatesOperator(LucidOperator):
    """Count the cluster's nodes by state as a published sequence, Prometheus or Slurm says.

    Prometheus is asked where `LUCID_NODE_QUERIES` says how. Without any of them the fewest nodes that
    hold the jobs are derived; skipped where the jobs do not tell.
    """

    cluster: Any
    source_format: Any
    lake_uri: Any = None
    node_states_uri: Any = None
    time_zone: Any = None
    start: Any = None
    end: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Ingest; returns the accounting."""
        from foundation.errors import BadInputError, NotFoundError
        from pipeline.ingest.node_states import ingest_recorded_counts, query_of_range
        from pipeline.training.windows import read_time

        lake_uri = self.lake_uri or settings.lake_uri()
        url, queries = settings.prometheus_url(), settings.node_queries()
        query = None
        if url and queries and not self.node_states_uri:
            start, end = data_interval(context)
            query = query_of_range(
                lake_uri,
                self.cluster,
                url,
                queries,
                read_time(self.start) or start,
                read_time(self.end) or end,
            )
        try:
            report = ingest_recorded_counts(
                lake_uri=lake_uri,
                cluster=self.cluster,
                source_format=self.source_format,
                input_uri=self.node_states_uri,
                time_zone=self.time_zone,
                prometheus=query,
                progress=self.log_progress(),
            )
        except (BadInputError, NotFoundError) as error:
            if self.node_states_uri or query is not None:
                raise
            raise AirflowSkipException(str(error)) from error  # these jobs do not tell; nothing needs it
        tell_rows(context, f"the counts of nodes of {self.cluster}", report)
        return report
