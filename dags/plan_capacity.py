"""### How many nodes

Answers an operator's questions by replays of a cluster's log: how many nodes of the cluster, and of each
virtual cluster, keep the mean or a percentile of waits under a limit, what sleeping nodes cost in waiting and
save in energy and money, and what servers on loan from inference save.

The page (the button *Plan* of the task; all of them: `/lucid/plans/`) has the answers, both sides of each
bound, a front of nodes, energy and waits with intervals, and for each row the `lucid simulate` that repeats
it. The same form again replays nothing that is there already.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param

from lucid_airflow import form_fields
from lucid_airflow.dag_defaults import DEFAULT_ARGS, TAG
from lucid_airflow.operators.plan import PlanCapacityOperator

with DAG(
    dag_id="plan_capacity",
    dag_display_name="Plan capacity",
    description="How many nodes keep waits under a limit, and what sleep and loans change.",
    doc_md=__doc__,
    schedule=None,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=12),
    default_args=DEFAULT_ARGS,
    tags=[TAG, "simulator"],
    params={
        "cluster": form_fields.another_cluster(
            "Cluster", "Its name in the lake; for a file, the plan's name. Empty: the lake's only one."
        ),
        "metric": Param(
            "p95",
            type="string",
            enum=["mean", "p50", "p95", "p99"],
            values_display={
                "mean": "the mean",
                "p50": "the median",
                "p95": "the 95th percentile",
                "p99": "the 99th percentile",
            },
            title="Of all waits",
            description="What is kept under the limit.",
        ),
        "limit_s": Param(
            600,
            type="number",
            minimum=0,
            title="At most (s)",
            description="The limit, in seconds of waiting; 0 or more.",
        ),
        "policy": form_fields.policy("that of the cluster's champion, else fifo"),
        "by_virtual_cluster": Param(
            True,
            type="boolean",
            title="Ask of each virtual cluster, too",
            description="Off: of the cluster as a whole alone, which is faster.",
        ),
        **form_fields.folded("Which days", form_fields.days_of_log()),
        **form_fields.folded(
            "Nodes that sleep, energy and money",
            {
                "node_sleep": form_fields.values(
                    "Nodes that sleep",
                    "Values to try beside all awake.",
                    '{"buffer_nodes": [5, 20], "boot_s": 300}',
                ),
                "price_per_kwh": Param(
                    0.1,
                    type="number",
                    minimum=0,
                    title="Price of a kWh",
                    description="In any currency; 0 or more.",
                ),
                "node_day_price": Param(
                    0,
                    type="number",
                    minimum=0,
                    title="Price of a node for a day",
                    description="Without its energy, in the same currency; 0 or more.",
                ),
            },
        ),
        **form_fields.folded(
            "Servers on loan from inference",
            {
                "loans": Param(
                    True,
                    type="boolean",
                    title="Ask what loans save",
                    description="Where an inference load is known: the lake's of the cluster, or the file "
                    "below.",
                ),
                "inference_uri": form_fields.place("Their load", "CSV time,usage. Empty: the lake's."),
                "inference_servers": Param(
                    None,
                    type=["integer", "null"],
                    minimum=1,
                    title="Inference servers",
                    description="Where their load does not say how many there are; 1 or more.",
                ),
                "headroom": Param(
                    None,
                    type=["number", "null"],
                    minimum=0,
                    maximum=1,
                    title="Headroom (share)",
                    description="Of the inference servers, 0 to 1, that is never lent. Empty: the policy's, "
                    "else 0.02.",
                ),
                "most_short_pct": Param(
                    2.0,
                    type="number",
                    minimum=0,
                    maximum=100,
                    title="Inference bins short of servers (%)",
                    description="At most so many, 0 to 100, of the inference servers that are asked for.",
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
                "points": Param(
                    12,
                    type="integer",
                    minimum=2,
                    maximum=1000,
                    title="Sizes in the table",
                    description="Beside those that the answers need; 2 to 1,000.",
                ),
                "block_days": Param(
                    1,
                    type="number",
                    exclusiveMinimum=0,
                    title="Days of a block",
                    description="Of the intervals: 1, or 7 for weeks; above 0.",
                ),
                "rules": form_fields.rule_set(),
            },
        ),
    },
) as dag:
    plan_capacity = PlanCapacityOperator(
        task_id="plan_capacity",
        cluster=dag.param("cluster"),
        planned_log={
            "jobs": dag.param("input_uri"),
            "source_format": dag.param("source_format"),
            "nodes": dag.param("nodes_uri"),
            "gpus_per_node": dag.param("gpus_per_node"),
            "time_zone": dag.param("time_zone"),
            "start": dag.param("start"),
            "end": dag.param("end"),
            "rules": dag.param("rules"),
            "inference": dag.param("inference_uri"),
            "inference_servers": dag.param("inference_servers"),
        },
        asked={
            "policy": dag.param("policy"),
            "settings": dag.param("settings"),
            "metric": dag.param("metric"),
            "limit_s": dag.param("limit_s"),
            "node_sleep": dag.param("node_sleep"),
            "loans": dag.param("loans"),
            "headroom": dag.param("headroom"),
            "most_short_pct": dag.param("most_short_pct"),
            "by_virtual_cluster": dag.param("by_virtual_cluster"),
            "points": dag.param("points"),
            "block_days": dag.param("block_days"),
            "price_per_kwh": dag.param("price_per_kwh"),
            "node_day_price": dag.param("node_day_price"),
        },
    )
