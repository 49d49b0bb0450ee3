"""What forecasts of waits are worth on days that a wait model did not learn from."""
