"""### What is past its retention goes

Every day (`LUCID_RETENTION_SCHEDULE`), or by hand: removes releases that were never live, or not for long,
model versions that no release pins, old runs of MLflow, old refused rows, sweeps and searches, pages, and the
logs of tasks. How old each may become says `LUCID_RETENTION`. What an alias names, what was live within its
retention and what these need always stays.

Runs of MLflow can be restored until MLflow's own `mlflow gc` takes them; rows of Airflow's database go by
`airflow db clean`. Both run beside the databases, not here.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.dag_defaults import PUBLISH_QUEUE, every_dag
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.settings import retention_schedule

with DAG(
    dag_id="apply_retention",
    dag_display_name="Apply the retention",
    description="Releases, model versions, runs, files and logs that are past their retention go.",
    doc_md=__doc__,
    schedule=retention_schedule(),
    **every_dag("upkeep", hours=2, queue=PUBLISH_QUEUE),
    params={
        "dry_run": form_fields.switch(
            "Only count", "On: says what would go, and removes nothing.", default=False
        ),
    },
) as dag:
    StepOperator(
        task_id="apply_retention",
        step="pipeline.steps.upkeep:apply_retention",
        arguments=form_fields.answers(dag, "dry_run"),
    )
