"""Kueue as a cluster: workload priorities through the Kubernetes API."""
