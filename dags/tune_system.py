"""### Better settings for a cluster, by simulation

Searches profiling limits (T_prof, N_prof, C_prof), packing thresholds and sharing (G_SS) of a release that
runs Lucid, what saved time is worth of one that runs Lyra, and how either lends servers: around the
cluster's current release, on the days before the held-out window. Round 0 replays the current settings and
every other value of each alone, which gives the sensitivity tables; each later round asks the optimiser
for trials by what the rounds before it found. A round's trials are replayed side by side, as many tasks as
the executor has room for. The same form again only computes what is missing.

The best trial is then replayed beside the current settings on days that chose nothing. Only if it is better
there beyond chance is a release built with its settings: the challenger, which `validate_release` judges
like any other. The champion is left alone. Tables and pictures go to the lake under `tuning/` and to MLflow.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param

from lucid_airflow import form_fields
from lucid_airflow.assets import RELEASE_CHALLENGER
from lucid_airflow.dag_defaults import DEFAULT_ARGS, TAG
from lucid_airflow.operators.tune import (
    AskTrialsOperator,
    BuildTunedReleaseOperator,
    EvaluateTrialsOperator,
    PlanTuningOperator,
    ProposeSettingsOperator,
)

MOST_ROUNDS = 6  # the graph is fixed when it is parsed; rounds beyond the form's number do nothing

with DAG(
    dag_id="tune_system",
    dag_display_name="Tune the settings",
    description="Better settings for a cluster, searched by simulation; a challenger if they are.",
    doc_md=__doc__,
    schedule=None,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=24),
    default_args=DEFAULT_ARGS,
    tags=[TAG, "simulator", "release"],
    params={
        "cluster": form_fields.another_cluster(
            "Cluster", "It must have a release to tune. Empty: the lake's only one."
        ),
        "objective": Param(
            "mean_jct_s",
            type="string",
            enum=["mean_jct_s", "mean_queuing_delay_s", "p99_queuing_delay_s", "p999_queuing_delay_s"],
            values_display={
                "mean_jct_s": "mean completion time (JCT)",
                "mean_queuing_delay_s": "mean queuing",
                "p99_queuing_delay_s": "99th percentile of queuing",
                "p999_queuing_delay_s": "99.9th percentile of queuing",
            },
            title="Objective",
            description="What is to be lower; as in the gate.",
        ),
        "rounds": Param(
            5,
            type="integer",
            minimum=0,
            maximum=MOST_ROUNDS,
            title="Rounds",
            description="Of the optimiser, after the current settings and one change at a time; "
            f"0 to {MOST_ROUNDS}.",
        ),
        "round_size": Param(
            8, type="integer", minimum=1, maximum=200, title="Trials a round", description="1 to 200."
        ),
        **form_fields.folded(
            "Which days",
            {
                "search_days": Param(
                    9,
                    type="number",
                    minimum=1,
                    maximum=365,
                    title="Search days",
                    description="Before the validation days, 1 to 365; trials are replayed on them.",
                ),
                "blocks": Param(
                    3,
                    type="integer",
                    minimum=1,
                    maximum=50,
                    title="Blocks of the search days",
                    description="What a trial is compared by; 1 to 50.",
                ),
                "validation_days": Param(
                    7,
                    type="number",
                    minimum=1,
                    maximum=365,
                    title="Validation days",
                    description="Before the held-out days, 1 to 365; only the best trial is replayed on "
                    "them.",
                ),
                "hold_out_days": form_fields.hold_out_days(
                    "The last days, which the gate judges on: not read. Empty: as the release was built.",
                    default=None,
                ),
                "as_of": form_fields.as_of("As if the log ended here (UTC). Empty: its end."),
            },
        ),
        **form_fields.folded(
            "Rarely needed",
            {
                "search": form_fields.values(
                    "Values",
                    "To try instead; one value fixes a setting.",
                    '{"profiling_limit_s": [60, 200]}',
                ),
                "job_types": Param(
                    "drawn",
                    type="string",
                    enum=["drawn", "log"],
                    values_display={
                        "drawn": "drawn: what the log lacks is drawn from measured profiles, as in the gate",
                        "log": "log: a job whose type the log lacks never shares its GPUs",
                    },
                    title="Job types",
                    description="Which jobs may share GPUs.",
                ),
                "trials_per_task": Param(
                    2,
                    type="integer",
                    minimum=1,
                    maximum=100,
                    title="Trials a task",
                    description="One after another; 1 to 100.",
                ),
                "seed": form_fields.seed("Of the optimiser."),
            },
        ),
    },
) as dag:
    plan_tuning = PlanTuningOperator(
        task_id="plan_tuning",
        cluster=dag.param("cluster"),
        asked={
            "hold_out_days": dag.param("hold_out_days"),
            "as_of": dag.param("as_of"),
            "search_days": dag.param("search_days"),
            "validation_days": dag.param("validation_days"),
            "blocks": dag.param("blocks"),
            "objective": dag.param("objective"),
            "round_size": dag.param("round_size"),
            "search": dag.param("search"),
            "job_types": dag.param("job_types"),
            "seed": dag.param("seed"),
        },
    )
    study_uri = plan_tuning.output["study_uri"]
    propose_settings = ProposeSettingsOperator(task_id="propose_settings", study_uri=study_uri)
    build_release = BuildTunedReleaseOperator(
        task_id="build_release",
        study_uri=study_uri,
        lake_uri=plan_tuning.output["lake_uri"],
        outlets=[RELEASE_CHALLENGER],
    )

    before = plan_tuning
    for number in range(1 + MOST_ROUNDS):
        ask_trials = AskTrialsOperator(
            task_id=f"ask_round_{number}",
            study_uri=study_uri,
            round_number=number,
            rounds=dag.param("rounds"),
            trials_per_task=dag.param("trials_per_task"),
        )
        evaluate_trials = EvaluateTrialsOperator.partial(task_id=f"evaluate_round_{number}").expand_kwargs(
            ask_trials.output
        )
        before >> ask_trials >> evaluate_trials
        before = evaluate_trials

    before >> propose_settings >> build_release
