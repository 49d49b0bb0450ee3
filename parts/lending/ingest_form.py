"""The load of inference servers in `ingest_logs`: a file, or Prometheus (`LUCID_INFERENCE_QUERIES`)."""

from typing import Any

from airflow.sdk import DAG, Param

from lucid_airflow import form_fields
from lucid_airflow.dag_defaults import STEP_TIMEOUT
from lucid_airflow.links import DataDocsLink
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.part_forms import IngestedPart
from parts.lending.assets import INFERENCE_LOAD_TABLE


def fields() -> dict[str, Param]:
    """What the form asks of it."""
    return {
        "inference_load_uri": form_fields.place(
            "Load of inference",
            "CSV time,usage or time,requests_per_s, with gap, servers. Empty: Prometheus, if it is told how.",
        ),
        "inference_servers": form_fields.count(
            "Inference servers", "Where their load does not say how many there are.", default=None, least=1
        ),
    }


def add_tasks(dag: DAG) -> tuple[Any, Any]:
    """Make its tasks in the DAG; the load is announced by itself, whatever becomes of the other tables."""
    ingest = StepOperator(
        task_id="ingest_inference_load",
        step="parts.lending.steps.steps:ingest_load",
        arguments={
            **form_fields.answers(dag, "cluster", "inference_load_uri", "time_zone", "start", "end"),
            "servers": dag.param("inference_servers"),
        },
    )
    validate = StepOperator(
        task_id="validate_inference_load",
        step="pipeline.steps.ingest:validate_table",
        arguments={"table": "inference_load", "clusters": [dag.param("cluster")]},
        links=[DataDocsLink()],
        trigger_rule="none_failed",
    )
    announce = StepOperator(
        task_id="announce_inference_load",
        step="parts.lending.steps.steps:announce_load",
        arguments=form_fields.answers(dag, "cluster", "as_of"),
        execution_timeout=STEP_TIMEOUT,
        outlets=[INFERENCE_LOAD_TABLE],
    )
    ingest >> validate
    [ingest, validate] >> announce
    return ingest, validate


INGEST_FORM = IngestedPart(fields, add_tasks)
