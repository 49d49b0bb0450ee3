"""The Workload Estimate Model: how long a job will run (Lucid section 3.5.3)."""
