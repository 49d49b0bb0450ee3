"""Several clusters in one run: it takes the first, and hands the rest on to another run."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.exceptions import AirflowSkipException

from foundation.outside_names import CLUSTER_NAME
from lucid_airflow.dag_defaults import STEP_TIMEOUT
from lucid_airflow.handover import HANDED_ON, REST_KEY
from lucid_airflow.run_results import tell


class RequestRestOperator(TriggerDagRunOperator):
    """Start one more run of this DAG for what `after` has left; skipped when that is nothing.

    It waits for `after` to end, not for its success: what fails for one cluster is nothing to the next.
    """

    def __init__(self, *, after: str, **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id="{{ dag.dag_id }}",
            trigger_run_id="{{ run_id }}",
            logical_date=None,
            skip_when_already_exists=True,
            trigger_rule="all_done",
            **{**kwargs, "execution_timeout": STEP_TIMEOUT},
        )
        self.after = after

    def execute(self, context: Any) -> Any:
        """Hand on, or skip."""
        rest = context["ti"].xcom_pull(task_ids=self.after, key=REST_KEY)
        if not rest:
            raise AirflowSkipException("This run was about one cluster, and nothing is left.")
        names = ", ".join(dict.fromkeys(str(each.get("cluster")) for each in rest))
        tell(context, f"Handed on to the next run: {names}.", step=True)
        self.trigger_run_id = rest_run_id(context["run_id"], rest)
        self.conf = {**(context["dag_run"].conf or {}), HANDED_ON: rest}  # what else the form says holds on
        return super().execute(context)


def rest_run_id(run_id: str, rest: Sequence[Mapping[str, Any]]) -> str:
    """Name the run for what is left, the same at each try; its cluster is first, for lists of runs."""
    cluster = str(rest[0].get("cluster") or "")
    # Airflow takes no two dots in a row for a name.
    named = re.sub(r"\.+", ".", cluster) if re.fullmatch(CLUSTER_NAME, cluster) else "unnamed"
    return f"{named}__{len(rest)}__rest__{run_id.rpartition('__rest__')[2]}"
