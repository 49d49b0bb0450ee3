"""What this part adds."""

from foundation.parts import Part

PART = Part(
    "node_sleep",
    "Sleeping nodes: which idle nodes may sleep (Helios, Cluster Energy Saving)",
    models={"node_demand": "lucid_models.node_demand.kind:ENTRY"},
    gate_check="pipeline.node_sleep.gate_check:GATE_CHECK",
    monitor_check="pipeline.node_sleep.monitor_check:MONITOR_CHECK",
    release_settings="pipeline.node_sleep.release_settings:RELEASE_SETTINGS",
    live="live_scheduler.node_sleep.live:LIVE",
    manifest={"node_sleep": "lucid_models.node_demand.kind:RELEASED"},
    model_steps={"node_demand": "parts.node_sleep.model_steps:STEPS"},
    planned="pipeline.node_sleep.planned_sleep:PLANNED",
)
