"""What this part adds to the core; what each field means says `foundation.parts.Part`."""

from foundation.parts import Command, Part

PART = Part(
    "node_sleep",
    "Sleeping nodes: which idle nodes may sleep (Helios, Cluster Energy Saving)",
    companions={"node_sleep": "parts.node_sleep.steps.sleep_of_replay:sleep_of_replay"},
    models={"node_demand": "parts.node_sleep.demand.kind:ENTRY"},
    gate_rules="parts.node_sleep.replay.gate_limits:SleepGateRules",
    gate_check="parts.node_sleep.steps.gate_check:GATE_CHECK",
    monitor_check="parts.node_sleep.steps.monitor_check:MONITOR_CHECK",
    forms={
        "retrain_models": "parts.node_sleep.training_form:TRAINING_FORM",
        "plan_capacity": "parts.node_sleep.study_forms:PLAN_FORM",
        "evaluate_policies": "parts.node_sleep.study_forms:SWEEP_FORM",
    },
    release_settings="parts.node_sleep.steps.release_settings:RELEASE_SETTINGS",
    commands=(
        Command("nodes", "parts.node_sleep.command", "Nodes in use, and which of them may sleep."),
        Command(
            "train nodes",
            "parts.node_sleep.train_command",
            "Train the Node Demand Model on a cluster's counts of nodes (the table node_states).",
        ),
    ),
    live="parts.node_sleep.live.live:LIVE",
    manifest={"node_sleep": "parts.node_sleep.demand.kind:RELEASED"},
    model_steps={"node_demand": "parts.node_sleep.demand.training:STEPS"},
    options={
        "simulate": "parts.node_sleep.options:SleepInReplay",
        "plan": "parts.node_sleep.options:SleepInPlan",
        "sweep": "parts.node_sleep.options:SleepInSweep",
        "release build": "parts.node_sleep.options:SleepInRelease",
    },
    planned="parts.node_sleep.steps.planned_sleep:PLANNED",
)
