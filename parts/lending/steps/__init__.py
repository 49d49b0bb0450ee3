"""Servers on loan from inference: what a cluster's load lets lend, and what lending has cost."""
