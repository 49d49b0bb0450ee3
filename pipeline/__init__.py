"""The steps of the model factory, one folder a step.

Ingest, profiling, training, validation, release, monitoring, search, replay.
"""
