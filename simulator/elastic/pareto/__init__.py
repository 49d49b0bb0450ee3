"""What a configuration of PCS is worth: parameters, samples of a workload, one replay (PCS, section 3.3)."""
