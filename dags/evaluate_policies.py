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

from airflow.sdk import DAG, Param

from lucid_airflow import form_fields, part_forms
from lucid_airflow.dag_defaults import every_dag
from lucid_airflow.links import MlflowLink
from lucid_airflow.operators.step import StepOperator

with DAG(
    dag_id="evaluate_policies",
    dag_display_name="Evaluate policies",
    description="What if: policies, settings and seeds on a log, simulated side by side.",
    doc_md=__doc__,
    schedule=None,
    # Its runs share nothing: what-ifs of people do not wait for a long sweep.
    **every_dag("simulator", hours=24, most_runs=4),
    params={
        "cluster": form_fields.the_cluster("Its name in the lake; for a file, the results' name."),
        "policies": form_fields.policies(
            "Each replays the jobs. sjf and srtf know the true run times: bounds, not schedulers.",
            default=["fifo", "sjf", "qssf", "srtf", "tiresias", "lucid"],
        ),
        **form_fields.days_of_log(),
        **form_fields.folded(
            "What else is tried",
            {
                "settings": form_fields.values(
                    "Settings",
                    "Of policies, all combinations of the values.",
                    '{"lucid": {"profiling_limit_s": [60, 100]}}',
                ),
                "variants": Param(
                    [],
                    type="array",
                    items={"type": "object"},
                    title="More variants",
                    description="A JSON list of single ones beside those, e.g. "
                    '[{"policy": "lucid", "settings": {"sharing": "none"}}].',
                ),
                "node_scales": Param(
                    [1],
                    type="array",
                    items={"type": "number", "exclusiveMinimum": 0},
                    minItems=1,
                    title="Cluster sizes (factors)",
                    description="A JSON list of factors above 0 on every virtual cluster's nodes, e.g. "
                    "[0.9, 1, 1.2].",
                ),
                "added_nodes": form_fields.values(
                    "Nodes more or fewer",
                    "Whole numbers by virtual cluster, beside the present nodes; * is all, in proportion.",
                    '{"vc1": -2, "*": 4}',
                ),
                "estimate_noises": Param(
                    [],
                    type="array",
                    items={"type": "number", "minimum": 0},
                    title="Estimate noise",
                    description="A JSON list of numbers from 0 on. Estimates are true run times x exp(noise "
                    "x N(0, 1)). Empty: the log's or its users' estimates.",
                ),
                "seeds": Param(
                    [0],
                    type="array",
                    items={"type": "integer"},
                    minItems=1,
                    title="Seeds",
                    description="A JSON list of whole numbers, a replay each: of drawn job types and of "
                    "estimate noise.",
                ),
                "failure_mtbf_hours": form_fields.number(
                    "Hours between failures of a node",
                    "Nodes fail at random, each once in so many hours on average. Empty: never.",
                    default=None,
                    above=0,
                ),
            },
        ),
        **part_forms.studied_fields("evaluate_policies"),
        **form_fields.folded(
            "A log file in place of the lake's jobs",
            {
                **form_fields.log_file(),
                "singles_uri": form_fields.place("Its solo profiles", "CSV, for policies that share GPUs."),
                "pairs_uri": form_fields.place("Its pair profiles", "CSV, for policies that share GPUs."),
            },
        ),
        **form_fields.folded(
            "Rarely needed",
            {
                "job_types": Param(
                    None,
                    type=form_fields.OPTIONAL_TEXT,
                    enum=["drawn", "log", None],
                    values_display={
                        "drawn": "drawn: what the log lacks is drawn from measured profiles",
                        "log": "log: a job whose type the log lacks never shares its GPUs",
                        "null": "drawn for the lake, log for a file",
                    },
                    title="Job types",
                    description="Which jobs may share GPUs.",
                ),
                "live_release": form_fields.switch(
                    "By the live release's models",
                    "Its settings, its estimates and its packing; for a cluster of the lake.",
                ),
                **form_fields.cold_start(),
                "keep_jobs": form_fields.switch(
                    "Keep each job's wait", "As the page What if has it done; of 64 runs at most."
                ),
                "rules": form_fields.rule_set(),
                "runs_per_task": form_fields.count(
                    "Runs a task", "Simulated one after another.", default=4, least=1, most=1000
                ),
            },
        ),
    },
) as dag:
    plan_sweep = StepOperator(
        task_id="plan_sweep",
        step="pipeline.steps.studies:plan_sweep",
        arguments={
            "cluster": dag.param("cluster"),
            "asked": {
                **form_fields.answers(
                    dag,
                    "policies",
                    "settings",
                    "variants",
                    "seeds",
                    "node_scales",
                    "added_nodes",
                    "live_release",
                    "keep_jobs",
                    "cold",
                    "estimate_noises",
                    "failure_mtbf_hours",
                ),
                **part_forms.asked_of_parts(dag),
                "jobs": dag.param("input_uri"),
                "format": dag.param("source_format"),
                "nodes": dag.param("nodes_uri"),
                "singles": dag.param("singles_uri"),
                "pairs": dag.param("pairs_uri"),
                **form_fields.answers(
                    dag, "gpus_per_node", "time_zone", "start", "end", "rules", "job_types"
                ),
            },
            "runs_per_task": dag.param("runs_per_task"),
        },
    )
    simulate_runs = StepOperator.partial(
        task_id="simulate_runs",
        step="pipeline.steps.studies:evaluate",
        map_index_template="{{ task.arguments['names'] }}",
    ).expand(arguments=plan_sweep.output)
    collect_sweep = StepOperator(
        task_id="collect_sweep",
        step="pipeline.steps.studies:collect_sweep",
        arguments={name: plan_sweep.output[name] for name in ("sweep_uri", "cluster")},
        links=[MlflowLink()],
        trigger_rule="all_done_min_one_success",  # lost workers are rows too; a failed plan has none
    )

    plan_sweep >> simulate_runs >> collect_sweep
