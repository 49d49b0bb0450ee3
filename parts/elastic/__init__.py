"""Elastic jobs on a pool of GPUs: which job gets how many, at every moment, and when a job will have ended.

The pool has GPUs and no nodes: what PCS (OSDI '24) and its rivals decide is how many GPUs each job holds. The
rules of allocation (`rules/`) also decide for clusters with nodes, where the engine places what they say.
"""
