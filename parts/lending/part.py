"""What this part adds."""

from foundation.parts import Command, Dag, Part

PART = Part(
    "lending",
    "Servers on loan: inference's idle servers lent to training (Lyra)",
    policies={
        "lyra": "simulator.policies.lyra:Lyra",
        "pollux": "simulator.policies.pollux:Pollux",
        "gandiva": "simulator.policies.gandiva:Gandiva",
        "opportunistic": "simulator.policies.opportunistic:Opportunistic",
    },
    rules={"lyra": "simulator.loaning.comparison_rules:comparison_rules"},
    policy_loader="simulator.loaning.policy_beside_inference:load_borrowing_policy",
    tables={"inference_load": "parts.lending.load_table:TABLE"},
    models={"inference_load": "lucid_models.inference_load.kind:ENTRY"},
    dags=(Dag("forecast_inference_load", "lucid_airflow.lending.forecast_dag:dag", act="train"),),
    mlflow_experiments=("lucid-inference-forecasts",),
    gate_rules="simulator.loaning.gate_limits:LoanGateRules",
    gate_check="pipeline.loaning.gate_check:GATE_CHECK",
    monitor_check="pipeline.loaning.monitor_check:MONITOR_CHECK",
    training_form="lucid_airflow.lending.training_form:TRAINING_FORM",
    release_settings="pipeline.loaning.release_settings:RELEASE_SETTINGS",
    tuned="pipeline.loaning.tuned_loans:TUNED",
    live="live_scheduler.loans.live:LIVE",
    commands=(
        Command(
            "train inference",
            "parts.lending.train_command",
            "Train the Inference Load Model on the load of a cluster's inference servers.",
        ),
        Command(
            "live loans",
            "lucid_cli.live_loans",
            "Say which nodes of inference are on loan to training jobs, and why.",
        ),
        Command(
            "inference",
            "lucid_cli.lending.inference",
            "Load of inference servers, whose idle ones may be lent.",
        ),
    ),
    manifest={"loaning": "lucid_models.inference_load.kind:RELEASED"},
    model_steps={"inference_load": "parts.lending.model_steps:STEPS"},
    options={
        "simulate": "lucid_cli.lending.loan_options:LoansInReplay",
        "plan": "lucid_cli.lending.loan_options:LoansInPlan",
    },
    planned="pipeline.loaning.planned_loans:PLANNED",
)
