"""What this part adds."""

from foundation.parts import Part

PART = Part(
    "waits",
    "Answers about waits: how long a job would wait, by a model of the cluster's own queue",
    models={"waits": "lucid_models.waits.kind:ENTRY"},
)
