"""Advice on time limits: how long a job should ask for, from what jobs like it took."""
