"""What this part adds."""

from foundation.parts import Part

PART = Part(
    "node_sleep",
    "Sleeping nodes: which idle nodes may sleep (Helios, Cluster Energy Saving)",
    models={"node_demand": "lucid_models.node_demand.kind:ENTRY"},
)
