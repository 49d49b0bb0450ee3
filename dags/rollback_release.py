"""### Back to the previous release

By hand only. One alias moves: `champion` goes back to `previous`, and live schedulers follow at their
next poll. The task is not tried again by itself, because a second rollback would undo the first.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param

from lucid_airflow.assets import RELEASE_CHAMPION
from lucid_airflow.dag_defaults import DEFAULT_ARGS, TAG
from lucid_airflow.operators.release import RollbackReleaseOperator

with DAG(
    dag_id="rollback_release",
    doc_md=__doc__,
    schedule=None,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=30),
    default_args=DEFAULT_ARGS,
    tags=[TAG, "release"],
    params={
        "reason": Param(
            type="string", minLength=3, title="Reason", description="Why; kept with the event and in the log."
        ),
    },
) as dag:
    rollback_release = RollbackReleaseOperator(
        task_id="rollback_release", reason=dag.param("reason"), outlets=[RELEASE_CHAMPION], retries=0
    )
