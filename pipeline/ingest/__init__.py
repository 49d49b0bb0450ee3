"""Logs, nodes and metrics into the lake."""
