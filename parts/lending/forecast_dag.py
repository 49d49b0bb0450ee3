"""### How many servers inference could lend

Starts when `ingest_logs` announces load of a cluster's inference servers, by the clock
(`LUCID_FORECAST_SCHEDULE`, daily by default), or by hand. Trains the forecast of inference usage anew if the
newest one has not seen the newest days before the held-out window: candidates are tried on days after those
that they learned from, the best is evaluated beside the last value, and registered in MLflow.

Then the next hours are forecast: usage with bounds as wide as such forecasts of this cluster have been wrong,
and how many servers could be lent, by the champion's settings of loans where it has any. The picture is in
MLflow (the button *MLflow* of the task). Nothing is lent by it: that takes a release with loans.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.assets import model_asset
from lucid_airflow.dag_defaults import STEP_TIMEOUT, every_dag
from lucid_airflow.links import MlflowLink
from lucid_airflow.operators.rest import RequestRestOperator
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.settings import schedule, with_clock
from parts.lending.assets import INFERENCE_LOAD_TABLE

with DAG(
    dag_id="forecast_inference_load",
    dag_display_name="Forecast the inference load",
    description="How many servers inference could lend to training in the next hours.",
    doc_md=__doc__,
    schedule=with_clock(schedule("LUCID_FORECAST_SCHEDULE", "@daily"), [INFERENCE_LOAD_TABLE]),
    **every_dag("models", hours=3),
    params={
        "cluster": form_fields.another_cluster(
            "Cluster", "Empty: the one that was announced, else every one with load, in runs of their own."
        ),
        "hours": form_fields.number("Hours ahead", "That are forecast.", default=3, least=0.5, most=24),
        **form_fields.folded(
            "Rarely needed",
            {
                "train_anew": form_fields.switch(
                    "Train anew",
                    "Off: only if the newest forecast learned until a day or more before it could have.",
                ),
                "hold_out_days": form_fields.hold_out_days(
                    "The last days of the jobs' log, which training does not see: the gate judges by them. "
                    "Empty: as the cluster's release has.",
                    default=None,
                ),
                "as_of": form_fields.as_of(
                    "As if the load ended here (UTC). Empty: as announced, else its end."
                ),
            },
        ),
    },
) as dag:
    resolve_inputs = StepOperator(
        task_id="resolve_inputs",
        step="parts.lending.steps.steps:resolve_load",
        arguments=form_fields.answers(dag, "cluster", "hold_out_days", "as_of", "train_anew"),
        multiple_outputs=True,
        execution_timeout=STEP_TIMEOUT,
    )
    inputs = {name: resolve_inputs.output[name] for name in ("cluster", "lake_uri")}
    train_inference_load = StepOperator(
        task_id="train_inference_load",
        step="pipeline.steps.training:train_model",
        arguments={
            "model": "inference_load",
            **{name: resolve_inputs.output[name] for name in ("training_until", "models", "reasons")},
            **inputs,
        },
        links=[MlflowLink()],
        multiple_outputs=True,
        outlets=[model_asset("inference_load")],
    )
    forecast_load = StepOperator(
        task_id="forecast_load",
        step="parts.lending.steps.steps:forecast_load",
        arguments={
            "trained_version": train_inference_load.output["version"],
            "kept_version": resolve_inputs.output["version"],
            "hours": dag.param("hours"),
            "as_of": resolve_inputs.output["as_of"],
            **inputs,
        },
        links=[MlflowLink()],
        trigger_rule="none_failed_min_one_success",  # a skipped training: the forecast is new enough
    )
    request_rest = RequestRestOperator(task_id="request_rest", after="resolve_inputs")

    resolve_inputs >> train_inference_load >> forecast_load
    resolve_inputs >> request_rest
