"""What the experiments add: commands, policies to compare with, and the rules of other simulators."""

from foundation.parts import Command, Part

PART = Part(
    "experiments",
    "Research beside the model factory: papers reproduced, studies, generators of documentation pages",
    policies={
        "pollux": "experiments.lyra_rivals.pollux:Pollux",
        "gandiva": "experiments.lyra_rivals.gandiva:Gandiva",
        "opportunistic": "experiments.lyra_rivals.opportunistic:Opportunistic",
    },
    needs={
        "pollux": "lending",
        "gandiva": "lending",
        "opportunistic": "lending",
        "pcs-artifact": "elastic",
    },
    rules={
        "lucid-artifact": "experiments.artifact_rules.rule_sets:LUCID_SIMULATOR.rules",
        "helios-artifact": "experiments.artifact_rules.rule_sets:HELIOS_SIMULATOR.rules",
        "pcs-artifact": "experiments.artifact_rules.pcs_rules:PCS_SIMULATOR.rules",
    },
    commands=(
        Command(
            "replay-updates",
            "experiments.commands.replay_updates",
            "Replay a months-long log with models updated never, monthly, weekly and daily.",
        ),
        Command(
            "evaluate", "experiments.commands.evaluate", "Measure a model beside naive and black-box rivals."
        ),
        Command("reproduce", "experiments.commands.reproduce", "A paper's evaluation as one command."),
    ),
)
