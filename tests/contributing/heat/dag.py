"""### Temperatures of GPUs

Says that there are new temperatures of a cluster.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.dag_defaults import every_dag
from lucid_airflow.operators.step import StepOperator

with DAG(
    dag_id="announce_heat",
    dag_display_name="Announce temperatures",
    description="Temperatures of a cluster's GPUs.",
    doc_md=__doc__,
    schedule=None,
    **every_dag("logs", hours=1),
    params={"cluster": form_fields.cluster("Whose.")},
) as dag:
    StepOperator(
        task_id="announce_heat",
        step="parts.heat.steps:announce_heat",
        arguments=form_fields.answers(dag, "cluster"),
    )
