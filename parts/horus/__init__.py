"""Needs of jobs predicted from their computation graphs, and the policy that shares GPUs by them (Horus)."""
