"""Fixtures of a private Slurm and of a live scheduler on it."""

from tests.slurm.conftest import cluster, live_settings

__all__ = ["cluster", "live_settings"]
