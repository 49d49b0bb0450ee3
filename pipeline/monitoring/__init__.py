"""Whether the live release still fits the cluster (Lucid section 3.6)."""
