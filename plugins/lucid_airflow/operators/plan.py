"""A cluster's capacity planned: an operator's questions in a form, the answers on a page."""

from typing import Any

from lucid_airflow import settings
from lucid_airflow.links import MlflowLink, PlanLink
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.run_results import tell


class PlanCapacityOperator(LucidOperator, multiple_outputs=True):
    """Answer a form's questions of a cluster's log by replays.

    `planned_log` holds fields of `LogRequest`, `asked` those of the form; empty ones are left out.
    """

    operator_extra_links = (MlflowLink(), PlanLink())

    cluster: Any
    planned_log: Any
    asked: Any
    workers: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Plan; returns the page, the questions' answers and how many rows the front has."""
        from foundation.usable_cores import usable_cores
        from pipeline.planning.form import log_of_form, settings_of_form
        from pipeline.planning.planner import plan_cluster
        from pipeline.training.windows import only_cluster

        lake_uri = settings.lake_uri()
        cluster = str(self.cluster or only_cluster(lake_uri))
        self.check_right(context, cluster)
        tracking_uri = settings.tracking_uri()
        planned = plan_cluster(
            log_of_form(self.planned_log, cluster=cluster, lake_uri=lake_uri),
            settings_of_form(self.asked, cluster=cluster, tracking_uri=tracking_uri),
            cluster=cluster,
            pages_dir=settings.pages_dir("plans"),
            tracking_uri=tracking_uri,
            workers=int(self.workers or usable_cores()),
            progress=self.log_progress(),
        )
        self.mlflow_path, self.plan_path = planned.mlflow_path, planned.page
        plan = planned.report.plan
        for each in plan.answers:
            self.log.info("%s %s (%s)", each.question, each.answer, each.variant)
        for remark in plan.remarks:
            self.log.warning("%s", remark)
        first = plan.answers[0]
        tell(context, f"{cluster}: {first.question} {first.answer}", page=f"lucid/plans/{planned.page}")
        return {
            "cluster": cluster,
            "page": planned.page,
            "answers": {f"{each.pool}, {each.variant}, {each.kind}": each.answer for each in plan.answers},
            "front": len(plan.front),
        }
