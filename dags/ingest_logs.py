"""### Cluster logs into the lake

Reads one cluster's log, its published throughput (if any) and the profiles of its GPUs into the lake, and
checks each table against its expectations. Every row is kept, quarantined with a reason, or skipped by a
named rule; the same window twice gives the same tables. When all tables hold, they are announced
together, and `retrain_models` starts. Where production's GPUs are watched (a Prometheus, or samples in
files), each job is told what it needed while it ran. Nodes in use are counted by a published sequence, the
deployment's Prometheus (`LUCID_NODE_QUERIES`) or a live Slurm, else derived from the jobs. Installed parts
read tables of their own, each announced by itself.

**A live Slurm** (source `slurm`) is a log as well: `sacct` of the data interval and the day before it, and
`sinfo` for the nodes. With `LUCID_SLURM_CLUSTER` set it is the default, every hour
(`LUCID_INGEST_SCHEDULE`); a run by the clock announces nothing, so that models are not trained every hour.

**Try it without any data**: choose a `synthetic:` source, and a name for the made cluster. **Profiles**:
without files those that were measured for the cluster stay (`profile_workloads`); where there are none, the
workload zoo is measured on the simulated GPU, and the release says so.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields, part_forms
from lucid_airflow.assets import JOB_TABLE, PROFILE_TABLE, THROUGHPUT_TABLE
from lucid_airflow.dag_defaults import STEP_TIMEOUT, every_dag
from lucid_airflow.links import DataDocsLink
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.slurm_settings import ingest_schedule, slurm_cluster

VALIDATE_TABLE = "pipeline.steps.ingest:validate_table"

with DAG(
    dag_id="ingest_logs",
    dag_display_name="Ingest a cluster's log",
    description="A log, its throughput and profiles into the lake; no row is lost without a named reason.",
    doc_md=__doc__,
    schedule=ingest_schedule(),
    catchup=False,
    **every_dag("logs", hours=6),
    params={
        "source_format": form_fields.log_source("slurm" if slurm_cluster() else "sacct"),
        "cluster": form_fields.cluster("Its name in the lake from now on.", slurm_cluster()),
        "input_uri": form_fields.place(
            "Log", "A path or URI; may end in .gz. Empty for a live Slurm and a made log."
        ),
        "nodes_uri": form_fields.place(
            "Nodes",
            "CSV virtual_cluster,nodes[,gpus_per_node]: the cluster's size. Empty if the lake has it, "
            "or a live Slurm, a made log or SWF's header says it; else the task tells what to write.",
        ),
        "gpus_per_node": form_fields.gpus_per_node("Where neither the log nor the file of nodes says it."),
        "time_zone": form_fields.time_zone("Of times that name none. Empty: what the format says, else UTC."),
        **form_fields.folded(
            "Which days",
            {
                **form_fields.days_of_log(),
                "hold_out_days": form_fields.hold_out_days(
                    "The log's last days, which training does not see and the gate replays.", default=14
                ),
                "as_of": form_fields.as_of(
                    "As if the log ended here (UTC). Empty: its last job, or the interval's end."
                ),
            },
        ),
        **form_fields.folded(
            "Profiles and metrics of GPUs",
            {
                "singles_uri": form_fields.place("Solo profiles", "CSV of jobs measured alone."),
                "pairs_uri": form_fields.place("Pair profiles", "CSV of jobs measured sharing a GPU."),
                "allow_simulated_profiles": form_fields.allow_simulated_profiles(),
                "metrics_uri": form_fields.place(
                    "GPU metrics",
                    "Samples besides the deployment's Prometheus: a file, or the samplers' folder.",
                ),
                "allocations_uri": form_fields.place(
                    "Who held which GPU",
                    "CSV job_id,gpu_uuid,start_time,end_time. Empty: the samples' own job labels.",
                ),
            },
        ),
        **form_fields.folded(
            "Throughput, nodes in use, other tables",
            {
                "throughput_uri": form_fields.place(
                    "Throughput", "Published 10-minute bins (Helios layout)."
                ),
                "throughput_cluster": form_fields.another_cluster(
                    "Cluster of the throughput file", "When it is another one; its table is kept beside."
                ),
                "node_states_uri": form_fields.place(
                    "Nodes in use",
                    "CSV time,busy,total. Empty: Prometheus or Slurm says it, or the jobs let derive it.",
                ),
                **part_forms.ingested_fields(),
            },
        ),
        **form_fields.folded(
            "A made log",
            {
                "days": form_fields.count(
                    "Days of a made log", "Of the sources synthetic:... alone.", default=30, least=2, most=400
                ),
                "seed": form_fields.seed("Of a made log and of simulated profiles."),
            },
        ),
        **form_fields.folded(
            "Rarely needed",
            {
                "trace_start": form_fields.text(
                    "Start of the trace",
                    "Of formats whose times are seconds from it. Empty: the format's own.",
                    form_fields.DAY_OR_TIME,
                ),
                "columns": form_fields.values(
                    "Columns of a CSV",
                    "Of jobs-csv: what the file calls columns of the job table.",
                    '{"gpus": "num_gpus"}',
                ),
                "max_bad_share": form_fields.number(
                    "Most bad rows",
                    "Their share; with more nothing is written. 1: any number.",
                    default=0.5,
                    least=0,
                    most=1,
                ),
            },
        ),
    },
) as dag:
    read_accounting = StepOperator(
        task_id="read_accounting",
        step="pipeline.steps.ingest:read_accounting",
        arguments=form_fields.answers(dag, "source_format", "cluster", "nodes_uri", "start", "end"),
        multiple_outputs=True,
    )
    ingest_jobs = StepOperator(
        task_id="ingest_jobs",
        step="pipeline.steps.ingest:ingest_log",
        arguments={
            **form_fields.answers(
                dag,
                "source_format",
                "cluster",
                "input_uri",
                "nodes_uri",
                "gpus_per_node",
                "time_zone",
                "start",
                "end",
                "days",
                "seed",
                "max_bad_share",
                "trace_start",
                "columns",
            ),
            "staged_uris": read_accounting.output["uris"],
        },
        trigger_rule="none_failed",
    )
    ingest_throughput = StepOperator(
        task_id="ingest_throughput",
        step="pipeline.steps.ingest:ingest_throughput",
        arguments={
            "input_uri": dag.param("throughput_uri"),
            "cluster": "{{ params.throughput_cluster or params.cluster }}",
            "time_zone": dag.param("time_zone"),
        },
    )
    ingest_profiles = StepOperator(
        task_id="ingest_profiles",
        step="pipeline.steps.ingest:ingest_profiles",
        arguments=form_fields.answers(dag, "cluster", "singles_uri", "pairs_uri", "seed"),
    )
    ingest_metrics = StepOperator(
        task_id="ingest_metrics",
        step="pipeline.steps.ingest:ingest_metrics",
        arguments=form_fields.answers(dag, "cluster", "metrics_uri", "allocations_uri", "start", "end"),
    )
    ingest_node_states = StepOperator(
        task_id="ingest_node_states",
        step="pipeline.steps.ingest:ingest_node_states",
        arguments=form_fields.answers(
            dag, "cluster", "source_format", "node_states_uri", "time_zone", "start", "end"
        ),
    )
    validate_jobs, validate_profiles = (
        StepOperator(
            task_id=f"validate_{table}",
            step=VALIDATE_TABLE,
            arguments={"table": table, "clusters": [dag.param("cluster")]},
            links=[DataDocsLink()],
        )
        for table in ("jobs", "profiles")
    )
    validate_throughput = StepOperator(
        task_id="validate_throughput",
        step=VALIDATE_TABLE,
        arguments={
            "table": "throughput",
            "clusters": [dag.param("cluster"), dag.param("throughput_cluster")],
        },
        links=[DataDocsLink()],
        trigger_rule="none_failed",
    )
    validate_metrics, validate_node_states = (
        StepOperator(
            task_id=f"validate_{table}",
            step=VALIDATE_TABLE,
            arguments={"table": table, "clusters": [dag.param("cluster")]},
            links=[DataDocsLink()],
            trigger_rule="none_failed",
        )
        for table in ("metrics", "node_states")
    )
    announce_tables = StepOperator(
        task_id="announce_tables",
        step="pipeline.steps.ingest:announce_tables",
        arguments=form_fields.answers(dag, "cluster", "hold_out_days", "as_of", "allow_simulated_profiles"),
        execution_timeout=STEP_TIMEOUT,
        outlets=[JOB_TABLE, THROUGHPUT_TABLE, PROFILE_TABLE],
    )

    read_accounting >> ingest_jobs
    ingest_jobs >> [
        validate_jobs,
        ingest_throughput,
        ingest_metrics,
        ingest_node_states,
    ]
    ingest_throughput >> validate_throughput
    ingest_profiles >> validate_profiles
    ingest_metrics >> validate_metrics
    ingest_node_states >> validate_node_states
    [
        validate_jobs,
        validate_throughput,
        validate_profiles,
        validate_metrics,
        validate_node_states,
    ] >> announce_tables
    part_forms.add_ingested_parts(dag, after=ingest_jobs, before=announce_tables)
