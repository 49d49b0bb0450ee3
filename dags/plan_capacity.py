"""### How many nodes

Answers an operator's questions by replays of a cluster's log: how many nodes of the cluster, and of each
virtual cluster, keep the mean or a percentile of waits under a limit, and what installed parts change:
what they save in nodes, energy and money, and cost in waiting.

The page (the button *Plan* of the task; all of them: `lucid/plans/` below Airflow's address) has the answers,
both sides of each bound, a front of nodes, energy and waits with intervals, and for each row the
`lucid simulate` that repeats it. The same form again replays nothing that is there already.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields, part_forms
from lucid_airflow.dag_defaults import every_dag
from lucid_airflow.links import MlflowLink, PlanLink
from lucid_airflow.operators.step import StepOperator

with DAG(
    dag_id="plan_capacity",
    dag_display_name="Plan capacity",
    description="How many nodes keep waits under a limit, and what installed parts change.",
    doc_md=__doc__,
    schedule=None,
    **every_dag("simulator", hours=12),
    params={
        "cluster": form_fields.the_cluster("Its name in the lake; for a file, the plan's name."),
        "metric": form_fields.option(
            "Of all waits",
            "What is kept under the limit.",
            {
                "mean": "the mean",
                "p50": "the median",
                "p95": "the 95th percentile",
                "p99": "the 99th percentile",
            },
            default="p95",
        ),
        "limit_s": form_fields.number(
            "At most (s)", "The limit, in seconds of waiting.", default=600, least=0
        ),
        "policy": form_fields.policy("that of the cluster's champion, else fifo"),
        "by_virtual_cluster": form_fields.switch(
            "Ask of each virtual cluster, too",
            "Off: of the cluster as a whole alone, which is faster.",
            default=True,
        ),
        **form_fields.folded("Which days", {**form_fields.days_of_log(), **form_fields.cold_start()}),
        **form_fields.folded(
            "Energy and money",
            {
                "price_per_kwh": form_fields.number(
                    "Price of a kWh", "In any currency.", default=0.1, least=0
                ),
                "node_day_price": form_fields.number(
                    "Price of a node for a day",
                    "Without its energy, in the same currency.",
                    default=0,
                    least=0,
                ),
            },
        ),
        **part_forms.studied_fields("plan_capacity"),
        **form_fields.folded("A log file in place of the lake's jobs", form_fields.log_file()),
        **form_fields.folded(
            "Rarely needed",
            {
                "settings": form_fields.values(
                    "Settings of the policy",
                    "The others are the champion's, or the defaults.",
                    '{"quantum_s": 60}',
                ),
                "points": form_fields.count(
                    "Sizes in the table",
                    "Beside those that the answers need.",
                    default=12,
                    least=2,
                    most=1000,
                ),
                "block_days": form_fields.number(
                    "Days of a block", "Of the intervals: 1, or 7 for weeks.", default=1, above=0
                ),
                "rules": form_fields.rule_set(),
            },
        ),
    },
) as dag:
    StepOperator(
        task_id="plan_capacity",
        step="pipeline.steps.studies:plan_capacity",
        arguments={
            "cluster": dag.param("cluster"),
            "planned_log": {
                "jobs": dag.param("input_uri"),
                "source_format": dag.param("source_format"),
                "nodes": dag.param("nodes_uri"),
                **form_fields.answers(dag, "gpus_per_node", "time_zone", "start", "end", "cold", "rules"),
                **part_forms.beside_log(dag),
            },
            "asked": part_forms.asked_of_parts(dag)
            | form_fields.answers(
                dag,
                "policy",
                "settings",
                "metric",
                "limit_s",
                "by_virtual_cluster",
                "points",
                "block_days",
                "price_per_kwh",
                "node_day_price",
            ),
        },
        links=[MlflowLink(), PlanLink()],
        multiple_outputs=True,
    )
