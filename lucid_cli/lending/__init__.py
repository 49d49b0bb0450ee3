"""Servers on loan on the command line."""
