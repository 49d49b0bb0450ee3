"""What is recorded of a run for people."""
