"""What tuning, the Pareto search and sweeps share: an experiment as files that any worker may fill."""
