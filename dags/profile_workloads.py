"""### A cluster's GPUs, measured

Measures configurations of the workload zoo alone, and then pairs of those that fit: the most telling pairs
first, as far as the budget goes. Tasks measure a batch each, side by side on as many devices as the form
names (pool `gpu`: one slot a device). Whatever breaks off goes on where it was: a task after its last
finished measurement, a run after the one before it. What the lake has a result of is not measured again.

**Where Slurm is configured** batches become jobs of its profiling partition, a GPU each, and tasks wait for
them without holding a worker. The numbers of devices then only say among how many the budget is divided.

The measurements become the cluster's profile tables, Great Expectations checks them, and `retrain_models`
trains the packing model anew; the gate judges the new release like any other.

**Without a GPU** the simulated device shows the whole way. Its rows say so, no release of a real cluster is
published with them, and they never replace or join measured ones. `cpu` proves the way of measuring and
profiles nothing.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param

from lucid_airflow import form_fields
from lucid_airflow.assets import PROFILE_MEASUREMENTS
from lucid_airflow.dag_defaults import GPU_POOL, STEP_TIMEOUT, every_dag
from lucid_airflow.links import DataDocsLink
from lucid_airflow.operators.profile_on_slurm import HERE, SLURM, SubmitMeasurementsOperator
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.settings import gpu_devices
from lucid_airflow.slurm_settings import slurm_partition

# A batch takes minutes; what may take days is a job's turn on a busy cluster.
LONGEST_WAIT = timedelta(days=3)
MEASURE_BATCH = "pipeline.steps.profiling:measure_batch"

with DAG(
    dag_id="profile_workloads",
    dag_display_name="Profile workloads",
    description="A cluster's own GPUs, measured alone and in pairs.",
    doc_md=__doc__,
    schedule=None,
    **every_dag("profiles", hours=7 * 24),
    params={
        "cluster": form_fields.the_cluster("GPUs of one kind to a cluster."),
        "devices": Param(
            gpu_devices(),
            type="array",
            minItems=1,
            items={"type": "string", **form_fields.DEVICE.schema},
            title="Devices",
            description=f"All of one kind, one a line. {form_fields.DEVICE.sentence}",
        ),
        "workloads": form_fields.text(
            "Workloads",
            "Models or configurations, comma-separated, * allowed, as ResNet*,BERT; table1: those of the "
            "paper's table; all: every one.",
            default="table1",
            examples=["table1", "all", "ResNet*", "BERT"],
        ),
        "budget_minutes": form_fields.number(
            "Minutes a device",
            "What each device may measure in this run. Empty: until nothing is left.",
            default=480,
            above=0,
        ),
        "pairs": form_fields.switch(
            "Pairs", "On: also what two workloads do to each other on one GPU. Off: each alone.", default=True
        ),
        **form_fields.folded(
            "Which pairs",
            {
                "most_pairs": form_fields.count(
                    "Pairs at most",
                    "In all, with those of earlier runs. Empty: as the budget goes.",
                    default=None,
                    least=1,
                ),
                "order": form_fields.option(
                    "Order of pairs",
                    "What comes first while the budget lasts.",
                    {
                        "space-filling": "space-filling: what is unlike all before comes first",
                        "uncertainty": "uncertainty: where the model knows least comes first",
                        "uncertainty-diverse": "uncertainty-diverse: both",
                    },
                    default="space-filling",
                ),
            },
        ),
        **form_fields.folded(
            "How it is measured",
            {
                "where": form_fields.option(
                    "Where",
                    "Slurm must be configured (LUCID_SLURM_PARTITION).",
                    {
                        HERE: "on this installation's workers",
                        SLURM: "as jobs of the cluster's Slurm, a GPU each",
                    },
                    default=SLURM if slurm_partition() else HERE,
                ),
                "window_s": form_fields.number(
                    "Window (s)",
                    "How long each measurement lasts; 30 to 60 are usual.",
                    default=30,
                    least=0.1,
                    most=300,
                ),
                "repeats": form_fields.count(
                    "Repeats", "Of each measurement; 3 at least, to be trusted.", default=3, least=1, most=20
                ),
                "warmup_s": form_fields.number(
                    "Warm-up (s)",
                    "Before each measurement; 10 steps at least.",
                    default=10,
                    least=0,
                    most=300,
                ),
                "batch_minutes": form_fields.number(
                    "Minutes a task",
                    "One measurement at least.",
                    default=10,
                    above=0,
                    most=120,
                ),
                "again": Param(
                    "nothing",
                    type="string",
                    enum=["nothing", "rejected", "everything"],
                    title="Measure again",
                    description="What was rejected, or everything: then another kind of GPU's measurements "
                    "give way.",
                ),
            },
        ),
        **form_fields.folded(
            "The retraining after it",
            {
                "hold_out_days": form_fields.hold_out_days(
                    "Days that it does not see. Empty: what the kept models have not seen, at most two "
                    "weeks.",
                    default=None,
                ),
                "as_of": form_fields.as_of("As if the log ended here (UTC). Empty: its last job."),
            },
        ),
    },
) as dag:
    measured_workloads = {
        **form_fields.answers(dag, "devices", "workloads", "budget_minutes", "batch_minutes", "again"),
        "method": {
            **form_fields.answers(dag, "window_s", "repeats", "warmup_s"),
        },
    }
    plan_solos = StepOperator(
        task_id="plan_solos",
        step="pipeline.steps.profiling:plan_measurements",
        arguments={"stage": "solo", "cluster": dag.param("cluster"), "asked": measured_workloads},
    )
    cluster = plan_solos.output["cluster"]
    measure_solos = SubmitMeasurementsOperator.partial(
        task_id="measure_solos",
        step=MEASURE_BATCH,
        where=dag.param("where"),
        pool=GPU_POOL,
        map_index_template="{{ task.arguments['what'] }}",
        execution_timeout=LONGEST_WAIT,
    ).expand(arguments=plan_solos.output)
    plan_pairs = StepOperator(
        task_id="plan_pairs",
        step="pipeline.steps.profiling:plan_measurements",
        arguments={
            "stage": "pairs",
            "cluster": cluster,
            "asked": measured_workloads,
            "wanted": dag.param("pairs"),
            **form_fields.answers(dag, "order", "most_pairs"),
        },
        trigger_rule="none_failed",  # a stage without anything to measure is a skipped task
    )
    measure_pairs = SubmitMeasurementsOperator.partial(
        task_id="measure_pairs",
        step=MEASURE_BATCH,
        where=dag.param("where"),
        pool=GPU_POOL,
        map_index_template="{{ task.arguments['what'] }}",
        execution_timeout=LONGEST_WAIT,
    ).expand(arguments=plan_pairs.output)
    collect_measurements = StepOperator(
        task_id="collect_measurements",
        step="pipeline.steps.profiling:collect_measurements",
        arguments={"cluster": cluster, "asked": measured_workloads},
        multiple_outputs=True,
        may_end_run=True,
        trigger_rule="none_failed",
    )
    validate_profiles = StepOperator(
        task_id="validate_profiles",
        step="pipeline.steps.ingest:validate_table",
        arguments={"table": "profiles", "clusters": [cluster]},
        links=[DataDocsLink()],
    )
    announce_measurements = StepOperator(
        task_id="announce_measurements",
        step="pipeline.steps.profiling:announce_measurements",
        arguments={"cluster": cluster, **form_fields.answers(dag, "hold_out_days", "as_of")},
        execution_timeout=STEP_TIMEOUT,
        outlets=[PROFILE_MEASUREMENTS],
    )

    plan_solos >> measure_solos >> plan_pairs >> measure_pairs >> collect_measurements
    collect_measurements >> validate_profiles >> announce_measurements
