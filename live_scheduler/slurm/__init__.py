"""Slurm from outside: its commands as typed functions, and its jobs' states."""
