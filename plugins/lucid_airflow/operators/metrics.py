"""What production jobs need of their GPUs, into the lake."""

from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow import settings
from lucid_airflow.handover import asked_interval
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.operators.row_accounts import tell_rows


class IngestMetricsOperator(LucidOperator):
    """Join GPU metrics to the cluster's jobs; skipped when there is neither a Prometheus nor a file, or no
    sample of these jobs.

    The address of Prometheus and its secrets are the deployment's (`LUCID_PROMETHEUS_URL`, ..._TOKEN), not
    the form's: whoever may fill in a form must not choose where a secret is sent. A scheduled run reads its
    data interval, unless the form names a window; a run by hand all that the lake's jobs ran.
    """

    cluster: Any
    lake_uri: Any = None
    metrics_uri: Any = None
    allocations_uri: Any = None
    start: Any = None
    end: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Ingest; returns the accounting."""
        from foundation.errors import NotFoundError
        from foundation.jsonable import to_jsonable
        from pipeline.ingest.cluster_metrics import ingest_recorded

        prometheus_url = settings.prometheus_url()
        if not prometheus_url and not self.metrics_uri:
            raise AirflowSkipException("Neither LUCID_PROMETHEUS_URL nor a file of metrics is named.")
        start, end = asked_interval(context, self.start, self.end)
        try:
            recorded = ingest_recorded(
                lake_uri=self.lake_uri or settings.lake_uri(),
                cluster=self.cluster,
                prometheus_url=prometheus_url,
                files=[self.metrics_uri] if self.metrics_uri else [],
                allocations=[self.allocations_uri] if self.allocations_uri else [],
                start=start,
                end=end,
                progress=self.log_progress(),
            )
        except NotFoundError as error:  # these jobs were not measured; the models do without
            raise AirflowSkipException(str(error)) from error
        report: dict[str, Any] = to_jsonable(recorded)
        self.log.info("samples: %s", report["samples"])
        remarks = [*(report.get("remarks") or ()), f"{report['jobs']:,} jobs have metrics."]
        tell_rows(context, f"the GPU metrics of {self.cluster}", {**report, "remarks": remarks})
        return report
