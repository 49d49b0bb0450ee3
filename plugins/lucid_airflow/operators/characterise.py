"""What a cluster's log says of it, on a page."""

from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow import settings
from lucid_airflow.handover import announcements, take_first
from lucid_airflow.links import CharacterisationLink, MlflowLink
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.run_results import tell


class CharacteriseClusterOperator(LucidOperator, multiple_outputs=True):
    """Characterise one cluster of the lake: the form's, else the one whose job table was announced.

    Several that were announced, or (by hand, without a cluster) all of the lake: the first; the rest is left
    to runs of their own.
    """

    operator_extra_links = (MlflowLink(), CharacterisationLink())

    cluster: Any = None
    start: Any = None
    end: Any = None
    time_zone: Any = None
    utilisation: Any = "half-open"

    def run(self, context: Any) -> dict[str, Any]:
        """Measure and write; returns the page, which implications hold, and how much was dropped."""
        from cluster_logs.lake import Lake
        from cluster_logs.log_statistics.observed_log import UtilisationRule
        from parts.characterisation.inputs import View
        from parts.characterisation.records import characterise_cluster
        from pipeline.training.windows import read_time

        announced = announcements(context)
        if self.cluster:
            announced = [{"cluster": self.cluster}]
        if not announced:
            announced = [{"cluster": name} for name in Lake(settings.lake_uri()).clusters()]
        if not announced:
            raise AirflowSkipException("The lake has no jobs yet: nothing to characterise.")
        mine = take_first(context, announced, "cluster")
        self.check_right(context, mine[-1]["cluster"])
        characterised = characterise_cluster(
            lake_uri=mine[-1].get("lake_uri") or settings.lake_uri(),
            cluster=str(mine[-1]["cluster"]),
            pages_dir=settings.pages_dir("characterisation"),
            tracking_uri=settings.tracking_uri(),
            view=View(
                read_time(self.start),
                read_time(self.end),
                self.time_zone or settings.time_zone(),
                UtilisationRule(self.utilisation),
            ),
            progress=self.log_progress(),
        )
        report = characterised.report
        self.mlflow_path = characterised.mlflow_path
        self.page = f"lucid/characterisation/{characterised.page}"
        tell(
            context,
            f"{report.cluster}: {' '.join(sentence.text for sentence in report.summary)}",
            page=self.page,
        )
        return {
            "cluster": report.cluster,
            "page": characterised.page,
            "implications": {str(each.number): each.holds for each in report.measured.implications},
            "dropped": len(report.measured.dropped),
        }
