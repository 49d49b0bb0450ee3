"""### An approved release becomes the champion

Starts when the gate has judged, or by hand. A refused release ends here: `check_verdict` shows the
reason, and the rest is skipped. An approved one waits for a person when approval is required
(LUCID_REQUIRE_APPROVAL, on unless the installation switches it off; answer under *Required Actions*), and
then `champion` of its cluster moves to it and the former champion becomes `previous`. The cluster's live
schedulers pull it at their next poll.

Where LUCID_FOUR_EYES is on, which it is unless the installation switches it off, none of those approves who
started what led to the release: its ingest, its training, its verdict or this run. Such an answer does not
count, and the question is asked again.

The request is to replace the release that is live when it is made. When another one goes live meanwhile it
has expired: `publish_release` says so and changes nothing.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.assets import RELEASE_CHAMPION, RELEASE_VERDICT
from lucid_airflow.dag_defaults import APPROVAL_TIMEOUT, PUBLISH_QUEUE, STEP_TIMEOUT, every_dag
from lucid_airflow.links import MlflowLink, ReleaseLink
from lucid_airflow.operators.approval import RequestApprovalOperator, reason_field
from lucid_airflow.operators.rest import RequestRestOperator
from lucid_airflow.operators.step import StepOperator

with DAG(
    dag_id="publish_release",
    dag_display_name="Publish a release",
    description="An approved release becomes the champion, if need be after a person says so.",
    doc_md=__doc__,
    schedule=[RELEASE_VERDICT],
    **every_dag("release", hours=1, approved=True, queue=PUBLISH_QUEUE),
    params={
        "cluster": form_fields.another_cluster(
            "Cluster", "Empty: the one of the release that was judged, or the only one."
        ),
        "version": form_fields.release("Empty: the one that was judged."),
        "replaces": form_fields.count(
            "In place of release",
            "The one that is live as you see it (0: none); nothing is published if another one is. Empty: "
            "whichever is live when the run starts.",
            default=None,
        ),
        "approval_required": form_fields.approval_required(),
        "reason": form_fields.reason(),
    },
) as dag:
    check_verdict = StepOperator(
        task_id="check_verdict",
        step="pipeline.steps.release:check_verdict",
        arguments=form_fields.answers(dag, "cluster", "version", "replaces"),
        links=[ReleaseLink(), MlflowLink()],
        multiple_outputs=True,
        execution_timeout=STEP_TIMEOUT,
    )
    request_approval = RequestApprovalOperator(
        task_id="request_approval",
        subject="Publish release {{ ti.xcom_pull('check_verdict', key='version') }} "
        "of cluster {{ ti.xcom_pull('check_verdict', key='cluster') }}?",
        body="{{ ti.xcom_pull('check_verdict', key='summary') }}",
        approval_required=dag.param("approval_required"),
        cluster=check_verdict.output["cluster"],
        version=check_verdict.output["version"],
        started_by=check_verdict.output["started_by"],
        params=reason_field(),
        response_timeout=APPROVAL_TIMEOUT,
    )
    publish_release = StepOperator(
        task_id="publish_release",
        step="pipeline.steps.release:publish_release",
        arguments={
            "cluster": check_verdict.output["cluster"],
            "version": check_verdict.output["version"],
            "replaces": check_verdict.output["live"],
            "named": check_verdict.output["named"],
            "approval": request_approval.output,
            "started_by": check_verdict.output["started_by"],
            "reason": dag.param("reason"),
        },
        links=[ReleaseLink(), MlflowLink()],
        execution_timeout=STEP_TIMEOUT,
        outlets=[RELEASE_CHAMPION],
    )
    request_rest = RequestRestOperator(task_id="request_rest", after="check_verdict")

    check_verdict >> request_approval >> publish_release
    check_verdict >> request_rest
