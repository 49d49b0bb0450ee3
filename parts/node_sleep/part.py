"""What this part adds."""

from foundation.parts import Command, Part

PART = Part(
    "node_sleep",
    "Sleeping nodes: which idle nodes may sleep (Helios, Cluster Energy Saving)",
    companions={"node_sleep": "pipeline.node_sleep.sleep_of_replay:sleep_of_replay"},
    models={"node_demand": "lucid_models.node_demand.kind:ENTRY"},
    gate_rules="simulator.node_sleep.gate_limits:SleepGateRules",
    gate_check="pipeline.node_sleep.gate_check:GATE_CHECK",
    monitor_check="pipeline.node_sleep.monitor_check:MONITOR_CHECK",
    training_form="lucid_airflow.node_sleep.training_form:TRAINING_FORM",
    release_settings="pipeline.node_sleep.release_settings:RELEASE_SETTINGS",
    commands=(
        Command("nodes", "lucid_cli.node_sleep.nodes", "Nodes in use, and which of them may sleep."),
        Command(
            "train nodes",
            "parts.node_sleep.train_command",
            "Train the Node Demand Model on a cluster's counts of nodes (the table node_states).",
        ),
    ),
    live="live_scheduler.node_sleep.live:LIVE",
    manifest={"node_sleep": "lucid_models.node_demand.kind:RELEASED"},
    model_steps={"node_demand": "parts.node_sleep.model_steps:STEPS"},
    options={
        "simulate": "lucid_cli.node_sleep.options:SleepInReplay",
        "plan": "lucid_cli.node_sleep.options:SleepInPlan",
        "sweep": "lucid_cli.node_sleep.options:SleepInSweep",
    },
    planned="pipeline.node_sleep.planned_sleep:PLANNED",
)
