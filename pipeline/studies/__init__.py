"""Searches by simulation: tuned settings, sweeps."""
