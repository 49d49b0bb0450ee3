"""How much of the inference servers was used: into the lake, announced, forecast."""

from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow import settings
from lucid_airflow.handover import announce, data_interval
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.operators.row_accounts import tell_rows
from lucid_airflow.run_results import tell


class IngestInferenceLoadOperator(LucidOperator):
    """Read the load of inference servers from a file, or from Prometheus.

    Prometheus is asked where `LUCID_INFERENCE_QUERIES` says how, and a made log brings its own. Skipped where
    there is none: not every cluster has inference servers.
    """

    cluster: Any
    lake_uri: Any = None
    inference_load_uri: Any = None
    servers: Any = None
    time_zone: Any = None
    start: Any = None
    end: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Ingest; returns the accounting."""
        from cluster_logs.inference_load import LoadReading
        from foundation.errors import NotFoundError
        from pipeline.ingest.inference_load import ingest_recorded_load, load_query_of_range
        from pipeline.training.windows import read_time

        lake_uri = self.lake_uri or settings.lake_uri()
        load = LoadReading(servers=None if self.servers is None else int(self.servers))
        url, queries = settings.prometheus_url(), settings.inference_queries()
        query = None
        if url and queries and not self.inference_load_uri:
            start, end = data_interval(context)
            query = load_query_of_range(
                lake_uri,
                self.cluster,
                url,
                queries,
                read_time(self.start) or start,
                read_time(self.end) or end,
                load,
            )
        try:
            report = ingest_recorded_load(
                lake_uri=lake_uri,
                cluster=self.cluster,
                input_uri=self.inference_load_uri,
                time_zone=self.time_zone,
                load=load,
                prometheus=query,
                progress=self.log_progress(),
            )
        except NotFoundError as error:
            if self.inference_load_uri or query is not None:
                raise
            raise AirflowSkipException(str(error)) from error
        tell_rows(context, f"the inference load of {self.cluster}", report)
        return report


class AnnounceLoadOperator(LucidOperator):
    """Tell who forecasts it that there is new load of a cluster's inference servers, and where."""

    cluster: Any
    lake_uri: Any = None
    as_of: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Give the table's event the cluster, the lake and where its known part is taken to end."""
        lake_uri = self.lake_uri or settings.lake_uri()
        extra = {"cluster": self.cluster, "lake_uri": lake_uri, "as_of": self.as_of}
        announce(context, extra)
        tell(
            context,
            f"The inference load of {self.cluster} is announced: forecast_inference_load starts.",
            step=True,
        )
        return extra
