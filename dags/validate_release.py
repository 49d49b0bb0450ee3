"""### The gate: a simulation that may say no

Starts when there is a new challenger, or by hand. Challenger, champion and the rival policies replay the
held-out window of the log; the verdict (intervals, constraints, tables, plots) goes to MLflow with the
release. A refusal is a result: this DAG succeeds, and `publish_release` says why nothing is published.

A release whose configuration was picked from a front is judged by the
predictability that was preferred, at the price in mean JCT that it was picked at.

The gate's rules are the installation's (LUCID_GATE_RULES). *What-if rules* make a study of the run: it is
kept in MLflow beside the verdict, and nothing is published on it.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.assets import RELEASE_CHALLENGER, RELEASE_VERDICT
from lucid_airflow.dag_defaults import JUDGE_QUEUE, STEP_TIMEOUT, every_dag
from lucid_airflow.links import MlflowLink, ReleaseLink
from lucid_airflow.operators.rest import RequestRestOperator
from lucid_airflow.operators.step import StepOperator

with DAG(
    dag_id="validate_release",
    dag_display_name="Validate a release",
    description="The gate: the held-out days replayed under the challenger and its rivals.",
    doc_md=__doc__,
    schedule=[RELEASE_CHALLENGER],
    **every_dag("release", hours=12, queue=JUDGE_QUEUE),
    params={
        "cluster": form_fields.another_cluster(
            "Cluster", "Empty: the one of the release that was built, else the only one."
        ),
        "version": form_fields.release("Empty: the challenger."),
        **form_fields.folded(
            "Other days or rules than its own",
            {
                "hold_out_days": form_fields.hold_out_days(
                    "The log's last days, which are replayed. Empty: as it was built.", default=None
                ),
                "as_of": form_fields.as_of(
                    "As if the log ended here (UTC). Empty: as announced, else as built."
                ),
                "rules": form_fields.what_if_rules(),
            },
        ),
    },
) as dag:
    resolve_inputs = StepOperator(
        task_id="resolve_inputs",
        step="pipeline.steps.training:resolve_judged",
        arguments=form_fields.answers(dag, "cluster", "version", "hold_out_days", "as_of"),
        multiple_outputs=True,
        execution_timeout=STEP_TIMEOUT,
    )
    validate_release = StepOperator(
        task_id="validate_release",
        step="pipeline.steps.release:validate_release",
        arguments={
            "cluster": resolve_inputs.output["cluster"],
            "lake_uri": resolve_inputs.output["lake_uri"],
            "hold_out_days": resolve_inputs.output["hold_out_days"],
            "as_of": resolve_inputs.output["as_of"],
            "version": resolve_inputs.output["version"],
            "rules": dag.param("rules"),
        },
        links=[ReleaseLink(), MlflowLink()],
    )
    announce_verdict = StepOperator(
        task_id="announce_verdict",
        step="pipeline.steps.release:announce_verdict",
        arguments={"judged": validate_release.output},
        execution_timeout=STEP_TIMEOUT,
        outlets=[RELEASE_VERDICT],
    )
    request_rest = RequestRestOperator(task_id="request_rest", after="resolve_inputs")

    resolve_inputs >> validate_release >> announce_verdict
    resolve_inputs >> request_rest
