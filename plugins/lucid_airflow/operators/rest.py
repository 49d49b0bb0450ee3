"""Several clusters in one run: it takes the first, and hands the rest on to another run."""

from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow.handover import HANDED_ON, REST_KEY


class RequestRestOperator(TriggerDagRunOperator):
    """Start one more run of this DAG for what `after` has left; skipped when that is nothing.

    It waits for `after` to end, not for its success: what fails for one cluster is nothing to the next.
    """

    def __init__(self, *, after: str, **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id="{{ dag.dag_id }}",
            trigger_run_id="rest__{{ run_id }}",
            logical_date=None,
            skip_when_already_exists=True,
            trigger_rule="all_done",
            **kwargs,
        )
        self.after = after

    def execute(self, context: Any) -> Any:
        """Hand on, or skip."""
        rest = context["ti"].xcom_pull(task_ids=self.after, key=REST_KEY)
        if not rest:
            raise AirflowSkipException("This run was about one cluster, and nothing is left.")
        names = ", ".join(dict.fromkeys(str(each.get("cluster")) for each in rest))
        self.log.info("Handed on to the next run: %s.", names)
        self.conf = {**(context["dag_run"].conf or {}), HANDED_ON: rest}  # what else the form says holds on
        return super().execute(context)
