"""The Packing Analyze Model: which jobs may share a GPU (Lucid section 3.5.1)."""
