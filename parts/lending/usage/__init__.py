"""The Inference Load Model: which share of the inference servers will be in use (Lyra, section 6)."""
