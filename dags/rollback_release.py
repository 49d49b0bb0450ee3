"""### Back to the previous release

By hand only. One alias moves: `champion` of the cluster goes back to `previous`, and its live schedulers
follow at their next poll. The release to leave is read first, so that a task that is tried again does not
roll forward again.
"""

from airflow.sdk import DAG, Param

from lucid_airflow import form_fields
from lucid_airflow.assets import RELEASE_CHAMPION
from lucid_airflow.dag_defaults import PUBLISH_QUEUE, STEP_TIMEOUT, every_dag
from lucid_airflow.links import MlflowLink, ReleaseLink
from lucid_airflow.operators.step import StepOperator

with DAG(
    dag_id="rollback_release",
    dag_display_name="Roll a release back",
    description="The previous release becomes the champion again.",
    doc_md=__doc__,
    schedule=None,
    **every_dag("release", hours=0.5, queue=PUBLISH_QUEUE),
    params={
        "cluster": form_fields.the_cluster(
            "Whose champion is left.", when_empty="the only one that has a release"
        ),
        "reason": Param(
            type="string",
            minLength=3,
            maxLength=1_000,
            title="Reason",
            description="Why, in 3 to 1,000 characters; kept with the release and in the log.",
        ),
        "from_version": form_fields.count(
            "Release to leave",
            "Where another is live by then, nothing moves. Empty: the one that is live.",
            default=None,
            least=1,
        ),
    },
) as dag:
    read_champion = StepOperator(
        task_id="read_champion",
        step="pipeline.steps.release:read_champion",
        arguments={"cluster": dag.param("cluster"), "version": dag.param("from_version")},
        links=[ReleaseLink(), MlflowLink()],
        multiple_outputs=True,
        execution_timeout=STEP_TIMEOUT,
    )
    rollback_release = StepOperator(
        task_id="rollback_release",
        step="pipeline.steps.release:rollback_release",
        arguments={
            "cluster": read_champion.output["cluster"],
            "from_version": read_champion.output["version"],
            "reason": dag.param("reason"),
        },
        links=[ReleaseLink(), MlflowLink()],
        execution_timeout=STEP_TIMEOUT,
        outlets=[RELEASE_CHAMPION],
    )

    read_champion >> rollback_release
