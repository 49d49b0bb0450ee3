"""### A cluster out of the lake

By hand only. Removes all that the lake holds of one cluster: its jobs, throughput, nodes, profiles,
quarantine, studies. Other clusters are left alone; so are its releases in MLflow, by which schedulers go on,
and the pages of past runs. The cluster is no longer shown, nor found where none is named, until a release of
it is built again.

With the field *Its name again* empty nothing is removed: the run says what would be. A removal that was
interrupted goes on when it is run again.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.dag_defaults import every_dag
from lucid_airflow.operators.step import StepOperator

with DAG(
    dag_id="remove_cluster",
    dag_display_name="Remove a cluster",
    description="All that the lake holds of one cluster goes; its releases and the pages of past runs stay.",
    doc_md=__doc__,
    schedule=None,
    **every_dag("logs", hours=2),
    params={
        "cluster": form_fields.another_cluster("Cluster", "The one to remove from the lake."),
        "typed_again": form_fields.another_cluster(
            "Its name again",
            "The cluster's name once more: it is removed. Empty: the run says what would go.",
        ),
    },
) as dag:
    StepOperator(
        task_id="remove_cluster",
        step="pipeline.steps.upkeep:remove_cluster",
        arguments=form_fields.answers(dag, "cluster", "typed_again"),
    )
