"""A made log into the lake: the first task of `ingest_logs` alone, so that a test waits for nothing else."""

from datetime import timedelta

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.dag_defaults import DEFAULT_ARGS
from lucid_airflow.operators.step import StepOperator

with DAG(
    dag_id="one_log",
    doc_md=__doc__,
    schedule=None,
    default_args={**DEFAULT_ARGS, "retry_delay": timedelta(seconds=1)},
    params={"cluster": form_fields.cluster("Its name in the lake.")},
) as dag:
    StepOperator(
        task_id="ingest_jobs",
        step="pipeline.steps.ingest:ingest_log",
        arguments={
            "source_format": "synthetic:helios-venus",
            "cluster": dag.param("cluster"),
            "days": 20,
        },
    )
