"""What this part adds to the core; what each field means says `foundation.parts.Part`."""

from foundation.parts import Command, Part

PART = Part(
    "waits",
    "Answers about waits: how long a job would wait, by a model of the cluster's own queue",
    models={"waits": "parts.waits.model.kind:ENTRY"},
    gate_check="parts.waits.steps.gate_check:GATE_CHECK",
    monitor_check="parts.waits.steps.monitor_check:MONITOR_CHECK",
    forms={"retrain_models": "parts.waits.training_form:TRAINING_FORM"},
    release_settings="parts.waits.steps.wait_answers:RELEASE_SETTINGS",
    live="parts.waits.live.live:LIVE",
    commands=(
        Command(
            "train waits",
            "parts.waits.train_command",
            "Train the Wait Model on the queue that a cluster's job table tells of, or on snapshots of it.",
        ),
        Command(
            "live waits",
            "parts.waits.command",
            "Say how long pending jobs go on waiting, by the wait model that the cluster's queue taught.",
        ),
    ),
    options={"release build": "parts.waits.options:WaitsInRelease"},
    manifest={"waits": "parts.waits.model.kind:RELEASED"},
    model_steps={"waits": "parts.waits.model.training:STEPS"},
)
