"""Capacity planned by simulation: how many nodes keep waits under a limit, what loans and sleep change."""
