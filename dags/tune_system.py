"""### Better settings for a cluster, by simulation

Searches profiling limits (T_prof, N_prof, C_prof), packing thresholds and sharing (G_SS) of a release that
runs Lucid, and what installed parts let tune: around the cluster's current release, on the days before the
held-out window. Round 0 replays the current settings and every other value of each alone, which gives the
sensitivity tables; each later round asks the optimiser for trials by what the rounds before it found. A
round's trials are replayed side by side, as many tasks as the executor has room for. The same form again only
computes what is missing.

The best trial is then replayed beside the current settings on days that chose nothing. Only if it is better
there beyond chance is a release built with its settings: the challenger, which `validate_release` judges
like any other. The champion is left alone. Tables and pictures go to the lake under `tuning/` and to MLflow.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.assets import RELEASE_CHALLENGER
from lucid_airflow.dag_defaults import every_dag
from lucid_airflow.links import MlflowLink, ReleaseLink
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.study_stages import rounds, study_stages

MOST_ROUNDS = 6

with DAG(
    dag_id="tune_system",
    dag_display_name="Tune the settings",
    description="Better settings for a cluster, searched by simulation; a challenger if they are.",
    doc_md=__doc__,
    schedule=None,
    **every_dag("simulator", "release", hours=24),
    params={
        "cluster": form_fields.the_cluster("It must have a release to tune."),
        "objective": form_fields.option(
            "Objective",
            "What is to be lower; as in the gate.",
            {
                "mean_jct_s": "mean completion time (JCT)",
                "mean_queuing_delay_s": "mean queuing",
                "p99_queuing_delay_s": "99th percentile of queuing",
                "p999_queuing_delay_s": "99.9th percentile of queuing",
            },
            default="mean_jct_s",
        ),
        "rounds": form_fields.count(
            "Rounds",
            "Of the optimiser, after the current settings and one change at a time.",
            default=5,
            least=0,
            most=MOST_ROUNDS,
        ),
        "round_size": form_fields.count("Trials a round", "", default=8, least=1, most=200),
        **form_fields.folded(
            "Which days",
            {
                "search_days": form_fields.number(
                    "Search days",
                    "Before the validation days; trials are replayed on them.",
                    default=9,
                    least=1,
                    most=365,
                ),
                "blocks": form_fields.count(
                    "Blocks of the search days", "What a trial is compared by.", default=3, least=1, most=50
                ),
                "validation_days": form_fields.number(
                    "Validation days",
                    "Before the held-out days; only the best trial is replayed on them.",
                    default=7,
                    least=1,
                    most=365,
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
                "job_types": form_fields.option(
                    "Job types",
                    "Which jobs may share GPUs.",
                    {
                        "drawn": "drawn: what the log lacks is drawn from measured profiles, as in the gate",
                        "log": "log: a job whose type the log lacks never shares its GPUs",
                    },
                    default="drawn",
                ),
                "trials_per_task": form_fields.count(
                    "Trials a task", "One after another.", default=2, least=1, most=100
                ),
                "seed": form_fields.seed("Of the optimiser."),
            },
        ),
    },
) as dag:
    plan_tuning = StepOperator(
        task_id="plan_tuning",
        step="pipeline.steps.studies:plan_tuning",
        arguments={
            "cluster": dag.param("cluster"),
            "asked": form_fields.answers(
                dag,
                "hold_out_days",
                "as_of",
                "search_days",
                "validation_days",
                "blocks",
                "objective",
                "round_size",
                "search",
                "job_types",
                "seed",
            ),
        },
        multiple_outputs=True,
    )
    study_uri = plan_tuning.output["study_uri"]
    propose_settings = StepOperator(
        task_id="propose_settings",
        step="pipeline.steps.studies:propose_settings",
        arguments={"study_uri": study_uri},
        links=[MlflowLink()],
        multiple_outputs=True,
        may_end_run=True,
        trigger_rule="none_failed",  # rounds beyond the form's are skipped
    )
    build_release = StepOperator(
        task_id="build_release",
        step="pipeline.steps.studies:build_tuned_release",
        arguments={"study_uri": study_uri, "lake_uri": plan_tuning.output["lake_uri"]},
        links=[ReleaseLink(), MlflowLink()],
        outlets=[RELEASE_CHALLENGER],
    )
    study_stages(
        rounds(1 + MOST_ROUNDS),
        after=plan_tuning,
        before=propose_settings,
        study="pipeline.studies.tuning.study:TuningStudy",
        study_uri=study_uri,
        rounds=dag.param("rounds"),
        per_task=dag.param("trials_per_task"),
    )
    propose_settings >> build_release
