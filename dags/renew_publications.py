"""### What is live is signed anew

Every eight hours (`LUCID_RENEW_SCHEDULE`), or by hand: the publication of each cluster's champion is signed
again, with a later expiry (LUCID_PUBLICATION_HOURS, a day). Nothing else changes. A scheduler whose
publication has expired says that it is *stale* and goes on with the release that it has: either this did not
run, or the newer truth is kept from it.
"""

from airflow.sdk import DAG

from lucid_airflow.dag_defaults import PUBLISH_QUEUE, STEP_TIMEOUT, every_dag
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.settings import renew_schedule

with DAG(
    dag_id="renew_publications",
    dag_display_name="Renew publications",
    description="What is live is signed anew, so that schedulers know that it still is.",
    doc_md=__doc__,
    schedule=renew_schedule(),
    **every_dag("release", hours=0.5, queue=PUBLISH_QUEUE),
) as dag:
    StepOperator(
        task_id="renew_publications",
        step="pipeline.steps.release:renew_publications",
        execution_timeout=STEP_TIMEOUT,
    )
