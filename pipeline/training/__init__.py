"""Data in, registered model versions out.

Which days teach, which models are trained, why they answer as they do.
"""
