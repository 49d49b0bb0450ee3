"""### What a cluster's log says of it

After each ingest that announces its tables, or by hand: the figures, tables and seven implications of Helios
(section 3) measured on the cluster's job table, and more: weeks compared, GPU time in vain, GPUs that idle
while jobs wait, whose jobs wait behind whose. What the log lacks is dropped by name, with a reason.

The page (the button *Page* of the task, and on the page of the cluster) is light or dark, with
CSV files and one JSON beside it; the numbers go to MLflow, too.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.assets import JOB_TABLE
from lucid_airflow.dag_defaults import every_dag
from lucid_airflow.links import MlflowLink, PageLink
from lucid_airflow.operators.rest import RequestRestOperator
from lucid_airflow.operators.step import StepOperator

with DAG(
    dag_id="characterise_cluster",
    dag_display_name="Characterise a cluster",
    description="What a cluster's log says of it: figures, tables and implications, on a page.",
    doc_md=__doc__,
    schedule=[JOB_TABLE],
    **every_dag("logs", hours=3),
    params={
        "cluster": form_fields.another_cluster(
            "Cluster", "Empty: the one that was ingested; by hand every one of the lake, in a run of its own."
        ),
        **form_fields.days_of_log(),
        **form_fields.folded(
            "How it is counted",
            {
                "time_zone": form_fields.time_zone("Whose hours count. Empty: LUCID_TIME_ZONE, else UTC."),
                "utilisation": form_fields.option(
                    "A job holds its GPUs",
                    "Minutes that count as used.",
                    {
                        "half-open": "from its start until before its end",
                        "inclusive": "from its start to its end, both included, as Helios published",
                    },
                    default="half-open",
                ),
            },
        ),
    },
) as dag:
    characterise_cluster = StepOperator(
        task_id="characterise_cluster",
        step="parts.characterisation.records:characterise_announced",
        arguments={
            "cluster": dag.param("cluster"),
            "view": form_fields.answers(dag, "start", "end", "time_zone", "utilisation"),
        },
        links=[MlflowLink(), PageLink()],
        multiple_outputs=True,
    )
    request_rest = RequestRestOperator(task_id="request_rest", after="characterise_cluster")

    characterise_cluster >> request_rest
