"""Capacity planned by simulation: nodes that keep waits under a limit, what installed parts change."""
