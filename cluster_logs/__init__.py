"""Cluster logs of many kinds, read into one canonical job table."""
