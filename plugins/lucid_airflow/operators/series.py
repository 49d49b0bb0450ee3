"""Series of measurements into the lake: from a file, or the deployment's Prometheus where it is told how."""

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow import settings
from lucid_airflow.handover import asked_interval
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.operators.row_accounts import tell_rows

if TYPE_CHECKING:
    from pipeline.ingest.measured_series import RecordedSeries


class IngestSeriesOperator(LucidOperator):
    """Read a cluster's series; skipped where neither file nor server is named and nothing else tells it.

    A subclass says what it reads, which field names the file, and which queries the deployment has.
    """

    # What is read, in words, and the field that names its file; no annotation, or they were fields too.
    words = "the series"
    file_field = "input_uri"

    cluster: Any
    lake_uri: Any = None
    time_zone: Any = None
    start: Any = None
    end: Any = None

    def queries(self) -> list[str]:
        """Return how the deployment's Prometheus is asked; nothing: it is not told."""
        raise NotImplementedError

    def ingest(self, source: "RecordedSeries") -> dict[str, Any]:
        """Read and write; returns the accounting."""
        raise NotImplementedError

    def run(self, context: Any) -> dict[str, Any]:
        """Ingest; returns the accounting."""
        from foundation.errors import BadInputError, NotFoundError
        from pipeline.ingest.measured_series import RecordedSeries

        start, end = asked_interval(context, self.start, self.end)
        source = RecordedSeries(
            self.lake_uri or settings.lake_uri(),
            self.cluster,
            input_uri=getattr(self, self.file_field),
            time_zone=self.time_zone,
            prometheus_url=settings.prometheus_url(),
            queries=self.queries(),
            start=start,
            end=end,
        )
        try:
            report = self.ingest(source)
        except (BadInputError, NotFoundError) as error:
            if source.is_named:
                raise
            raise AirflowSkipException(str(error)) from error  # nothing tells it; nothing needs it
        tell_rows(context, f"{self.words} of {self.cluster}", report)
        return report
