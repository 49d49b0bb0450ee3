"""Elastic jobs on one pool of GPUs shared in fractions, as PCS' simulator plays them."""
