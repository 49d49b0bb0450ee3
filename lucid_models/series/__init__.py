"""One forecaster of series of bins, on which throughput, busy nodes and inference usage stand."""
