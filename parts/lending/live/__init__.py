"""Inference nodes that are lent to training jobs, and taken back: which, when, and how it is undone."""
