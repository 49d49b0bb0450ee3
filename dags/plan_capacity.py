"""### How many nodes

Answers an operator's questions by replays of a cluster's log: how many nodes of the cluster, and of each
virtual cluster, keep the mean or a percentile of waits under a limit, what sleeping nodes cost in waiting and
save in energy and money, and what servers on loan from inference save.

The page (the button *Plan* of the task; all of them: `lucid/plans/` below Airflow's address) has the answers,
both sides of each bound, a front of nodes, energy and waits with intervals, and for each row the
`lucid simulate` that repeats it. The same form again replays nothing that is there already.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.dag_defaults import every_dag
from lucid_airflow.links import MlflowLink, PlanLink
from lucid_airflow.operators.step import StepOperator

with DAG(
    dag_id="plan_capacity",
    dag_display_name="Plan capacity",
    description="How many nodes keep waits under a limit, and what sleep and loans change.",
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
            "Nodes that sleep, energy and money",
            {
                "node_sleep": form_fields.values(
                    "Nodes that sleep",
                    "Values to try beside all awake.",
                    '{"buffer_nodes": [5, 20], "boot_s": 300}',
                ),
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
        **form_fields.folded(
            "Servers on loan from inference",
            {
                "loans": form_fields.switch(
                    "Ask what loans save",
                    "Where an inference load is known: the lake's of the cluster, or the file below.",
                    default=True,
                ),
                "inference_uri": form_fields.place("Their load", "CSV time,usage. Empty: the lake's."),
                "inference_servers": form_fields.count(
                    "Inference servers",
                    "Where their load does not say how many there are.",
                    default=None,
                    least=1,
                ),
                "headroom": form_fields.number(
                    "Headroom (share)",
                    "Of the inference servers, which is never lent. Empty: the policy's, else 0.02.",
                    default=None,
                    least=0,
                    most=1,
                ),
                "most_short_pct": form_fields.number(
                    "Inference bins short of servers (%)",
                    "At most so many of the inference servers that are asked for.",
                    default=2.0,
                    least=0,
                    most=100,
                ),
            },
        ),
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
                "inference": dag.param("inference_uri"),
                "inference_servers": dag.param("inference_servers"),
            },
            "asked": form_fields.answers(
                dag,
                "policy",
                "settings",
                "metric",
                "limit_s",
                "node_sleep",
                "loans",
                "headroom",
                "most_short_pct",
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
