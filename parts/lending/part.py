"""What this part adds."""

from foundation.parts import Part

PART = Part(
    "lending",
    "Servers on loan: inference's idle servers lent to training (Lyra)",
    models={"inference_load": "lucid_models.inference_load.kind:ENTRY"},
)
