"""What this part adds."""

from foundation.parts import Command, Dag, Part

PART = Part(
    "lending",
    "Servers on loan: inference's idle servers lent to training (Lyra)",
    models={"inference_load": "lucid_models.inference_load.kind:ENTRY"},
    dags=(Dag("forecast_inference_load", "lucid_airflow.lending.forecast_dag:dag", act="train"),),
    mlflow_experiments=("lucid-inference-forecasts",),
    gate_check="pipeline.loaning.gate_check:GATE_CHECK",
    monitor_check="pipeline.loaning.monitor_check:MONITOR_CHECK",
    release_settings="pipeline.loaning.release_settings:RELEASE_SETTINGS",
    tuned="pipeline.loaning.tuned_loans:TUNED",
    live="live_scheduler.loans.live:LIVE",
    commands=(
        Command(
            "live loans",
            "lucid_cli.live_loans",
            "Say which nodes of inference are on loan to training jobs, and why.",
        ),
    ),
)
