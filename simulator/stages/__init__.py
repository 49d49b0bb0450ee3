"""Lucid's stages, each a section of the paper and usable on its own by other policies."""
