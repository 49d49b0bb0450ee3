"""### What if: policies x settings x seeds on a cluster's log

Plans a sweep on the jobs of the lake (or of a file), simulates its runs side by side, as many tasks as the
executor has room for, and collects one tidy table (Parquet and CSV) with pictures, in the lake under
`sweeps/` and in MLflow. The same form again only computes what is missing; a run that fails is a row with
its error.

**Settings** is a JSON object of policies, their settings and the values to try, all combinations of a
policy's values: `{"lucid": {"profiling_limit_s": [60, 100, 200]}}`. **Nodes that sleep** is one
of settings of sleep and the values to try; each run is made with all nodes awake, too, and the table says
what queuing sleep adds.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param

from lucid_airflow import form_fields
from lucid_airflow.dag_defaults import DEFAULT_ARGS, TAG
from lucid_airflow.operators.sweep import CollectSweepOperator, PlanSweepOperator, SimulateRunsOperator

OPTIONAL_TEXT = ["string", "null"]

with DAG(
    dag_id="evaluate_policies",
    dag_display_name="Evaluate policies",
    description="What if: policies, settings and seeds on a log, simulated side by side.",
    doc_md=__doc__,
    schedule=None,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=24),
    default_args=DEFAULT_ARGS,
    tags=[TAG, "simulator"],
    params={
        "cluster": form_fields.another_cluster(
            "Cluster",
            "Its name in the lake; for a file, the results' name. Empty: the lake's only one.",
        ),
        "policies": Param(
            ["fifo", "sjf", "qssf", "srtf", "tiresias", "lucid"],
            type="array",
            items={"type": "string"},
            minItems=1,
            title="Policies",
            description="One a line.",
        ),
        "settings": Param(
            {},
            type="object",
            title="Settings",
            description='Values to try, e.g. {"lucid": {"profiling_limit_s": [60, 100]}}.',
        ),
        "variants": Param(
            [],
            type="array",
            items={"type": "object"},
            title="More variants",
            description='Beside those: [{"policy": "lucid", "settings": {"sharing": "none"}}].',
        ),
        "seeds": Param(
            [0],
            type="array",
            items={"type": "integer"},
            minItems=1,
            title="Seeds",
            description="Of drawn job types and of estimate noise.",
        ),
        "node_scales": Param(
            [1],
            type="array",
            items={"type": "number", "exclusiveMinimum": 0},
            minItems=1,
            title="Cluster sizes",
            description="Factors on every virtual cluster's nodes.",
        ),
        "estimate_noises": Param(
            [],
            type="array",
            items={"type": "number", "minimum": 0},
            title="Estimate noise",
            description="Estimates: true run times x exp(noise x N(0, 1)). Empty: the log's or its users'.",
        ),
        "start": Param(
            None, type=OPTIONAL_TEXT, title="From", description="Jobs submitted from this day or time on."
        ),
        "end": Param(
            None, type=OPTIONAL_TEXT, title="Until", description="Jobs submitted before this day or time."
        ),
        "failure_mtbf_hours": Param(
            None,
            type=["number", "null"],
            exclusiveMinimum=0,
            title="Hours between failures",
            description="Nodes fail at random, each once in so many hours on average. Empty: never.",
        ),
        "node_sleep": Param(
            {},
            type="object",
            title="Nodes that sleep",
            description='Values to try beside all awake, e.g. {"buffer_nodes": [1, 5], "boot_s": 300}.',
        ),
        "job_types": Param(
            None,
            type=OPTIONAL_TEXT,
            pattern="^(drawn|log)$",
            title="Job types",
            description="drawn: what the log lacks is drawn from measured profiles; log: it never shares its "
            "GPUs. Empty: drawn for the lake, log for a file.",
        ),
        "rules": Param("default", type="string", title="Rules", description="The simulator's rule set."),
        "input_uri": form_fields.place("Log file", "Path or URI. Empty: the lake's jobs."),
        "source_format": Param(
            None, type=OPTIONAL_TEXT, title="Its format", description="As in ingest_logs; for a file only."
        ),
        "nodes_uri": form_fields.place("Its nodes", "CSV virtual_cluster,nodes; for a file."),
        "singles_uri": form_fields.place("Its solo profiles", "For packing; for a file."),
        "pairs_uri": form_fields.place("Its pair profiles", "For packing; for a file."),
        "gpus_per_node": Param(8, type="integer", minimum=1, maximum=64, title="GPUs of one node"),
        "time_zone": Param(
            None, type=OPTIONAL_TEXT, title="Time zone", description="Of naive times in the file."
        ),
        "runs_per_task": Param(
            4, type="integer", minimum=1, maximum=1000, title="Runs a task", description="One after another."
        ),
    },
) as dag:
    plan_sweep = PlanSweepOperator(
        task_id="plan_sweep",
        cluster=dag.param("cluster"),
        asked={
            "policies": dag.param("policies"),
            "settings": dag.param("settings"),
            "variants": dag.param("variants"),
            "seeds": dag.param("seeds"),
            "node_scales": dag.param("node_scales"),
            "estimate_noises": dag.param("estimate_noises"),
            "failure_mtbf_hours": dag.param("failure_mtbf_hours"),
            "node_sleep": dag.param("node_sleep"),
            "jobs": dag.param("input_uri"),
            "format": dag.param("source_format"),
            "nodes": dag.param("nodes_uri"),
            "singles": dag.param("singles_uri"),
            "pairs": dag.param("pairs_uri"),
            "gpus_per_node": dag.param("gpus_per_node"),
            "time_zone": dag.param("time_zone"),
            "start": dag.param("start"),
            "end": dag.param("end"),
            "rules": dag.param("rules"),
            "job_types": dag.param("job_types"),
        },
        runs_per_task=dag.param("runs_per_task"),
    )
    simulate_runs = SimulateRunsOperator.partial(task_id="simulate_runs").expand_kwargs(plan_sweep.output)
    collect_sweep = CollectSweepOperator(
        task_id="collect_sweep",
        sweep_uri=plan_sweep.output["sweep_uri"],
        cluster=plan_sweep.output["cluster"],
        trigger_rule="all_done_min_one_success",  # lost workers are rows too; a failed plan has none
    )

    plan_sweep >> simulate_runs >> collect_sweep
