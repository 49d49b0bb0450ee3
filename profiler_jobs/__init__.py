"""GPU measurements: solo and colocated runs, devices, the workload zoo."""
