"""### Does the live release still fit the cluster?

Every day (`LUCID_MONITOR_SCHEDULE`), or by hand: reads what came into the lake since the champion learned and
compares it with its training window: drift, live errors of estimates and forecasts beside naive rivals and
validation, missing data. Where a live scheduler uses the release: what it believed at submission beside what
happened, and what its order was worth. The decision is **ok**, **watch** or **retrain**, with its reasons,
on a page (the button *Monitoring* of the task) and in MLflow.

**retrain** starts `retrain_models`, at most once in so many hours of new log. Nothing is published by it: the
gate judges the new release like any other.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.assets import RETRAINING_REQUEST
from lucid_airflow.dag_defaults import STEP_TIMEOUT, every_dag
from lucid_airflow.links import MlflowLink, MonitoringLink, ReleaseLink
from lucid_airflow.operators.rest import RequestRestOperator
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.settings import monitor_schedule

with DAG(
    dag_id="monitor_live",
    dag_display_name="Monitor the live release",
    description="Does the live release still fit the cluster? Drift, live errors, missing data.",
    doc_md=__doc__,
    schedule=monitor_schedule(),
    **every_dag("models", hours=3),
    params={
        "cluster": form_fields.another_cluster(
            "Cluster", "Empty: every one that has a champion, in a run of its own."
        ),
        "window_days": form_fields.number(
            "Days to judge",
            "The newest; never before the champion learned. Empty: a week.",
            default=None,
            least=0.5,
            most=366,
        ),
        "may_retrain": form_fields.switch("May start a retraining", "Off: it only reports.", default=True),
        **form_fields.folded(
            "Rarely needed",
            {
                "as_of": form_fields.text(
                    "As of",
                    "As if the log ended there; now finds out that it stopped. Empty: its end.",
                    form_fields.DAY_TIME_OR_NOW,
                ),
                "settings": form_fields.values(
                    "Thresholds", "In place of the defaults (docs/monitoring.md).", '{"psi_major": 0.3}'
                ),
                "live": form_fields.place(
                    "Live scheduler",
                    "Its state folder or address. Empty: the deployment's, if there is one.",
                    reads_from="live_roots",
                ),
            },
        ),
    },
) as dag:
    monitor_release = StepOperator(
        task_id="monitor_release",
        step="pipeline.steps.monitoring:monitor_release",
        arguments={
            **form_fields.answers(dag, "cluster", "window_days", "as_of", "settings", "live"),
            "may_request": dag.param("may_retrain"),
        },
        links=[ReleaseLink(), MlflowLink(), MonitoringLink()],
        multiple_outputs=True,
        may_end_run=True,
    )
    request_retraining = StepOperator(
        task_id="request_retraining",
        step="pipeline.steps.monitoring:request_retraining",
        arguments={"retraining": monitor_release.output["retraining"]},
        execution_timeout=STEP_TIMEOUT,
        outlets=[RETRAINING_REQUEST],
    )
    request_rest = RequestRestOperator(task_id="request_rest", after="monitor_release")

    monitor_release >> request_retraining
    monitor_release >> request_rest
