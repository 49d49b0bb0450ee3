"""What this part adds."""

from foundation.parts import Command, Part

PART = Part(
    "waits",
    "Answers about waits: how long a job would wait, by a model of the cluster's own queue",
    models={"waits": "lucid_models.waits.kind:ENTRY"},
    gate_check="pipeline.waits.gate_check:GATE_CHECK",
    monitor_check="pipeline.waits.monitor_check:MONITOR_CHECK",
    training_form="lucid_airflow.waits.training_form:TRAINING_FORM",
    release_settings="pipeline.waits.wait_answers:RELEASE_SETTINGS",
    live="live_scheduler.waits.live:LIVE",
    commands=(
        Command(
            "train waits",
            "parts.waits.train_command",
            "Train the Wait Model on the queue that a cluster's job table tells of, or on snapshots of it.",
        ),
        Command(
            "live waits",
            "lucid_cli.live_waits",
            "Say how long pending jobs go on waiting, by the wait model that the cluster's queue taught.",
        ),
    ),
    manifest={"waits": "lucid_models.waits.kind:RELEASED"},
    model_steps={"waits": "parts.waits.model_steps:STEPS"},
)
