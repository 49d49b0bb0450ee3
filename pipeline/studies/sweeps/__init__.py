"""Policies x settings x sizes x seeds, in parallel into one table."""
