"""Measuring GPUs with the packing models at hand: which pairs to measure next, and whether that pays."""
