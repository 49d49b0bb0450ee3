"""Answers about waits: how long a job would wait, by a model of the cluster's own queue."""
