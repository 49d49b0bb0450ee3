"""Proving a release on the held-out window."""
