"""What this part adds: temperatures of GPUs, a model of them, a limit at the gate."""

from foundation.parts import Command, Dag, Part

PART = Part(
    "heat",
    "Temperatures of GPUs",
    tables={"gpu_heat": "parts.heat.table:TABLE"},
    models={"heat": "parts.heat.model:ENTRY"},
    gate_check="parts.heat.gate:GATE_CHECK",
    commands=(
        Command("heat", "parts.heat.command", "Say how hot a cluster's GPUs are at an hour of the day."),
    ),
    dags=(Dag("announce_heat", "parts.heat.dag:dag", act="train"),),
)
