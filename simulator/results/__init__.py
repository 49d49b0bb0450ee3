"""What a replay returns: one row a job, and figures of merit."""
