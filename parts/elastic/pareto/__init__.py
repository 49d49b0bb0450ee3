"""The Pareto search of PCS: state a preference, look at the front, pick a configuration."""
