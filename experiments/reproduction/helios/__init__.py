"""Helios' evaluation (SC '21) beside what public data gives."""
