"""What this part adds to the core; what each field means says `foundation.parts.Part`."""

from foundation.parts import Command, Dag, Part

PART = Part(
    "lending",
    "Servers on loan: inference's idle servers lent to training (Lyra)",
    policies={"lyra": "parts.lending.lyra:Lyra"},
    rules={"lyra": "parts.lending.comparison_rules:comparison_rules"},
    policy_loader="parts.lending.replay.policy_beside_inference:load_borrowing_policy",
    tables={"inference_load": "parts.lending.load.lake_table:TABLE"},
    readers={"inference-load": "parts.lending.load.reader:READER"},
    models={"inference_load": "parts.lending.usage.kind:ENTRY"},
    dags=(Dag("forecast_inference_load", "parts.lending.forecast_dag:dag", act="train"),),
    mlflow_experiments=("lucid-inference-forecasts",),
    gate_rules="parts.lending.replay.gate_limits:LoanGateRules",
    gate_check="parts.lending.steps.gate_check:GATE_CHECK",
    monitor_check="parts.lending.steps.monitor_check:MONITOR_CHECK",
    forms={
        "retrain_models": "parts.lending.training_form:TRAINING_FORM",
        "ingest_logs": "parts.lending.ingest_form:INGEST_FORM",
        "plan_capacity": "parts.lending.plan_form:PLAN_FORM",
    },
    release_settings="parts.lending.steps.release_settings:RELEASE_SETTINGS",
    tuned="parts.lending.steps.tuned_loans:TUNED",
    live="parts.lending.live.live:LIVE",
    commands=(
        Command(
            "train inference",
            "parts.lending.train_command",
            "Train the Inference Load Model on the load of a cluster's inference servers.",
        ),
        Command(
            "live loans",
            "parts.lending.live_command",
            "Say which nodes of inference are on loan to training jobs, and why.",
        ),
        Command(
            "inference",
            "parts.lending.command",
            "Load of inference servers, whose idle ones may be lent.",
        ),
    ),
    manifest={"loaning": "parts.lending.usage.kind:RELEASED"},
    model_steps={"inference_load": "parts.lending.usage.training:STEPS"},
    options={
        "ingest": "parts.lending.options:LoadInIngest",
        "simulate": "parts.lending.options:LoansInReplay",
        "plan": "parts.lending.options:LoansInPlan",
        "release build": "parts.lending.options:LoansInRelease",
    },
    planned="parts.lending.steps.planned_loans:PLANNED",
)
