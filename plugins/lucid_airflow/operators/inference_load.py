"""How much of the inference servers was used: into the lake, announced, forecast."""

from typing import TYPE_CHECKING, Any

from lucid_airflow import settings
from lucid_airflow.handover import announce
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.operators.series import IngestSeriesOperator
from lucid_airflow.run_results import tell

if TYPE_CHECKING:
    from pipeline.ingest.measured_series import RecordedSeries


class IngestInferenceLoadOperator(IngestSeriesOperator):
    """Read the load of inference servers from a file, or from Prometheus.

    Prometheus is asked where `LUCID_INFERENCE_QUERIES` says how, and a made log brings its own. Skipped where
    there is none: not every cluster has inference servers.
    """

    words = "the inference load"
    file_field = "inference_load_uri"

    inference_load_uri: Any = None
    servers: Any = None

    def queries(self) -> list[str]:
        """Return the query of the load, and that of the servers."""
        return settings.inference_queries()

    def ingest(self, source: "RecordedSeries") -> dict[str, Any]:
        """Read the load, with the form's number of servers."""
        from cluster_logs.inference_load import LoadReading
        from pipeline.ingest.inference_load import ingest_recorded_load

        load = LoadReading(servers=None if self.servers is None else int(self.servers))
        return ingest_recorded_load(source, load, self.log_progress())


class AnnounceLoadOperator(LucidOperator, is_step=True):
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
