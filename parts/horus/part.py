"""What this part adds to the core; what each field means says `foundation.parts.Part`."""

from foundation.parts import Command, Part

PART = Part(
    "horus",
    "Needs of jobs predicted from their computation graphs, and the policy that shares GPUs by them (Horus)",
    policies={"horus": "parts.horus.policy:Horus"},
    models={"utilisation": "parts.horus.kind:ENTRY"},
    model_steps={"utilisation": "parts.horus.training:STEPS"},
    commands=(
        Command(
            "predict-profile",
            "parts.horus.command",
            "Predict GPU utilisation, memory utilisation, memory and Sharing Score of a job that was never\n"
            "profiled.",
        ),
        Command(
            "train utilisation",
            "parts.horus.command",
            "Train the Utilisation Model, which predicts a job's needs from its graph, on solo profiles.",
        ),
    ),
)
