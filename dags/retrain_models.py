"""### Models from the lake, and a release of them

Starts when `ingest_logs` announces its tables, when `monitor_live` requests it, when `profile_workloads` has
measured, by the clock if `LUCID_RETRAIN_SCHEDULE` says so (then for the champion's cluster), or by hand.
Trains the packing, throughput and duration models side by side on what was known before the held-out window,
registers a version of each in MLflow with naive rivals beside every score, and pins the three in a new
release: the challenger. `validate_release` judges it next.

Models of installed parts are trained as well, where the lake has what each learns from; a model that is not
trained is skipped with the reason. A release pins them where its parts go by them: as the form says, else as
the champion does.

New measurements of GPUs train the packing model alone; the release keeps the newest versions of the others.
"""

from airflow.sdk import DAG

from lucid_airflow import form_fields
from lucid_airflow.assets import (
    DURATION_MODEL,
    JOB_TABLE,
    PACKING_MODEL,
    PROFILE_MEASUREMENTS,
    PROFILE_TABLE,
    RELEASE_CHALLENGER,
    RETRAINING_REQUEST,
    THROUGHPUT_MODEL,
    THROUGHPUT_TABLE,
    model_asset,
)
from lucid_airflow.dag_defaults import STEP_TIMEOUT, every_dag
from lucid_airflow.links import MlflowLink, ReleaseLink
from lucid_airflow.operators.rest import RequestRestOperator
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.part_forms import trained_parts
from lucid_airflow.settings import retrain_schedule

OF_PARTS = trained_parts()
# What each training announces, and which fields of the form it goes by.
MODELS = {
    "packing": (PACKING_MODEL, ("packing_kind",)),
    "throughput": (THROUGHPUT_MODEL, ("lead_bins", "utc_offset_hours")),
    "duration": (DURATION_MODEL, ()),
    **{kind: (model_asset(kind), options) for kind, options in OF_PARTS.models.items()},
}

with DAG(
    dag_id="retrain_models",
    dag_display_name="Retrain the models",
    description="Models from the lake, pinned together as a release: the challenger.",
    doc_md=__doc__,
    schedule=retrain_schedule(
        (JOB_TABLE & THROUGHPUT_TABLE & PROFILE_TABLE) | RETRAINING_REQUEST | PROFILE_MEASUREMENTS
    ),
    **every_dag("models", hours=6),
    params={
        "cluster": form_fields.another_cluster(
            "Cluster", "Empty: the one that was announced, else the lake's only one."
        ),
        "models": form_fields.choices(
            "Models",
            "The release keeps the newest of the others. Empty: as announced, else all.",
            list(MODELS),
            default=None,
        ),
        "hold_out_days": form_fields.hold_out_days(
            "The log's last days, which training does not see and the gate replays. Empty: as announced, "
            "else as the cluster's release has.",
            default=None,
        ),
        **OF_PARTS.fields,
        **form_fields.folded(
            "Rarely needed",
            {
                "as_of": form_fields.as_of("As if the log ended here (UTC). Empty: as announced."),
                "allow_simulated_profiles": form_fields.allow_simulated_profiles(),
                **OF_PARTS.rare,
                "packing_kind": form_fields.option(
                    "Packing model",
                    "What says which jobs may share a GPU.",
                    {
                        "tree": "tree: a tree over sharing scores",
                        "pairwise": "pairwise: beside the tree a model of the speeds of pairs",
                    },
                    default="tree",
                ),
                "lead_bins": form_fields.count(
                    "Lead of throughput forecasts (bins)",
                    "How many bins of ten minutes lie between the newest known one and the forecast one.",
                    default=5,
                    least=1,
                    most=1_008,
                ),
                "utc_offset_hours": form_fields.number(
                    "Local time minus UTC (hours)",
                    "Daily and weekly patterns follow the users' clocks.",
                    default=0,
                    least=-12,
                    most=14,
                ),
            },
        ),
    },
) as dag:
    resolve_inputs = StepOperator(
        task_id="resolve_inputs",
        step="pipeline.steps.training:resolve_training",
        arguments={
            **form_fields.answers(
                dag, "models", "cluster", "hold_out_days", "as_of", "allow_simulated_profiles"
            ),
            "asked_of_parts": form_fields.answers(dag, *OF_PARTS.asked),
        },
        multiple_outputs=True,
        execution_timeout=STEP_TIMEOUT,
    )
    inputs = {name: resolve_inputs.output[name] for name in ("cluster", "lake_uri", "training_until")}
    train_models = {
        model: StepOperator(
            task_id=f"train_{model}",
            step="pipeline.steps.training:train_model",
            arguments={
                "model": model,
                "options": form_fields.answers(dag, *options),
                "models": resolve_inputs.output["models"],
                "reasons": resolve_inputs.output["reasons"],
                **inputs,
            },
            links=[MlflowLink()],
            multiple_outputs=True,
            outlets=[asset],
        )
        for model, (asset, options) in MODELS.items()
    }
    build_release = StepOperator(
        task_id="build_release",
        step="pipeline.steps.release:build_release",
        arguments={
            **inputs,
            "hold_out_days": resolve_inputs.output["hold_out_days"],
            "as_of": resolve_inputs.output["as_of"],
            "versions": {model: training.output["version"] for model, training in train_models.items()},
            "kept": resolve_inputs.output["kept"],
            "reasons": resolve_inputs.output["reasons"],
            "asked_of_parts": form_fields.answers(dag, *OF_PARTS.asked),
            "allow_simulated_profiles": resolve_inputs.output["allow_simulated_profiles"],
        },
        links=[ReleaseLink(), MlflowLink()],
        trigger_rule="none_failed",  # a model that is kept is a skipped task
        outlets=[RELEASE_CHALLENGER],
    )
    request_rest = RequestRestOperator(task_id="request_rest", after="resolve_inputs")

    resolve_inputs >> [*train_models.values()] >> build_release
    resolve_inputs >> request_rest
