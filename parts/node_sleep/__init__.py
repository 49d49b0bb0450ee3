"""Sleeping nodes: which idle nodes may sleep (Helios, Cluster Energy Saving)."""
