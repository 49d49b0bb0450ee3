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
from lucid_airflow.dag_defaults import DEFAULT_ARGS, GPU_POOL, TAG
from lucid_airflow.operators.profile import (
    AnnounceMeasurementsOperator,
    CollectMeasurementsOperator,
    PlanMeasurementsOperator,
)
from lucid_airflow.operators.profile_on_slurm import HERE, SLURM, SubmitMeasurementsOperator
from lucid_airflow.operators.validate import ValidateTableOperator
from lucid_airflow.settings import gpu_devices
from lucid_airflow.slurm_settings import slurm_partition

# A batch takes minutes; what may take days is a job's turn on a busy cluster.
LONGEST_WAIT = timedelta(days=3)

with DAG(
    dag_id="profile_workloads",
    dag_display_name="Profile workloads",
    description="A cluster's own GPUs, measured alone and in pairs.",
    doc_md=__doc__,
    schedule=None,
    max_active_runs=1,
    dagrun_timeout=timedelta(days=7),
    default_args=DEFAULT_ARGS,
    tags=[TAG, "profiles"],
    params={
        "cluster": form_fields.another_cluster(
            "Cluster", "GPUs of one kind to a cluster. Empty: the lake's only one."
        ),
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
        "budget_minutes": Param(
            480,
            type=["number", "null"],
            exclusiveMinimum=0,
            title="Minutes a device",
            description="What each device may measure in this run; above 0. Empty: until nothing is left.",
        ),
        "pairs": Param(
            True,
            type="boolean",
            title="Pairs",
            description="On: also what two workloads do to each other on one GPU. Off: each alone.",
        ),
        **form_fields.folded(
            "Which pairs",
            {
                "most_pairs": Param(
                    None,
                    type=["integer", "null"],
                    minimum=1,
                    title="Pairs at most",
                    description="In all, with those of earlier runs; 1 or more. Empty: as the budget goes.",
                ),
                "order": Param(
                    "space-filling",
                    type="string",
                    enum=["space-filling", "uncertainty", "uncertainty-diverse"],
                    values_display={
                        "space-filling": "space-filling: what is unlike all before comes first",
                        "uncertainty": "uncertainty: where the model knows least comes first",
                        "uncertainty-diverse": "uncertainty-diverse: both",
                    },
                    title="Order of pairs",
                    description="What comes first while the budget lasts.",
                ),
            },
        ),
        **form_fields.folded(
            "How it is measured",
            {
                "where": Param(
                    SLURM if slurm_partition() else HERE,
                    type="string",
                    enum=[HERE, SLURM],
                    values_display={
                        HERE: "on this installation's workers",
                        SLURM: "as jobs of the cluster's Slurm, a GPU each",
                    },
                    title="Where",
                    description="Slurm must be configured (LUCID_SLURM_PARTITION).",
                ),
                "window_s": Param(
                    30,
                    type="number",
                    minimum=0.1,
                    maximum=300,
                    title="Window (s)",
                    description="How long each measurement lasts, 0.1 to 300; 30 to 60 are usual.",
                ),
                "repeats": Param(
                    3,
                    type="integer",
                    minimum=1,
                    maximum=20,
                    title="Repeats",
                    description="Of each measurement, 1 to 20; 3 at least, to be trusted.",
                ),
                "warmup_s": Param(
                    10,
                    type="number",
                    minimum=0,
                    maximum=300,
                    title="Warm-up (s)",
                    description="Before each measurement, 0 to 300; 10 steps at least.",
                ),
                "batch_minutes": Param(
                    10,
                    type="number",
                    exclusiveMinimum=0,
                    maximum=120,
                    title="Minutes a task",
                    description="Above 0, at most 120; one measurement at least.",
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
    asked = {
        "devices": dag.param("devices"),
        "workloads": dag.param("workloads"),
        "budget_minutes": dag.param("budget_minutes"),
        "batch_minutes": dag.param("batch_minutes"),
        "again": dag.param("again"),
        "method": {
            "window_s": dag.param("window_s"),
            "repeats": dag.param("repeats"),
            "warmup_s": dag.param("warmup_s"),
        },
    }
    plan_solos = PlanMeasurementsOperator(
        task_id="plan_solos", stage="solo", cluster=dag.param("cluster"), asked=asked
    )
    cluster = plan_solos.output["cluster"]
    measure_solos = SubmitMeasurementsOperator.partial(
        task_id="measure_solos",
        where=dag.param("where"),
        pool=GPU_POOL,
        map_index_template="{{ task.what }}",
        execution_timeout=LONGEST_WAIT,
    ).expand_kwargs(plan_solos.output)
    plan_pairs = PlanMeasurementsOperator(
        task_id="plan_pairs",
        stage="pairs",
        cluster=cluster,
        asked=asked,
        wanted=dag.param("pairs"),
        order=dag.param("order"),
        most_pairs=dag.param("most_pairs"),
        trigger_rule="none_failed",  # a stage without anything to measure is a skipped task
    )
    measure_pairs = SubmitMeasurementsOperator.partial(
        task_id="measure_pairs",
        where=dag.param("where"),
        pool=GPU_POOL,
        map_index_template="{{ task.what }}",
        execution_timeout=LONGEST_WAIT,
    ).expand_kwargs(plan_pairs.output)
    collect_measurements = CollectMeasurementsOperator(
        task_id="collect_measurements",
        cluster=cluster,
        asked=asked,
        trigger_rule="none_failed",
    )
    validate_profiles = ValidateTableOperator(
        task_id="validate_profiles", table="profiles", clusters=[cluster]
    )
    announce_measurements = AnnounceMeasurementsOperator(
        task_id="announce_measurements",
        cluster=cluster,
        hold_out_days=dag.param("hold_out_days"),
        as_of=dag.param("as_of"),
        outlets=[PROFILE_MEASUREMENTS],
    )

    plan_solos >> measure_solos >> plan_pairs >> measure_pairs >> collect_measurements
    collect_measurements >> validate_profiles >> announce_measurements
