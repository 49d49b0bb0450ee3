"""Searches by simulation: tuned settings, Pareto fronts, sweeps."""
