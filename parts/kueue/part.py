"""What this part adds to the core; what each field means says `foundation.parts.Part`."""

from foundation.parts import Command, Part

PART = Part(
    "kueue",
    "Kubernetes clusters with Kueue, as clusters of the live scheduler",
    adapters={"kueue": "parts.kueue.opening:Kueue"},
    commands=(
        Command(
            "live kueue",
            "parts.kueue.command",
            "Order the workloads of a Kubernetes cluster with Kueue by the published release, until told to "
            "end.",
        ),
    ),
)
