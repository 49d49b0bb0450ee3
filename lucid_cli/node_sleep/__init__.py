"""Sleeping nodes on the command line."""
