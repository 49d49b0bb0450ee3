"""Servers of an inference cluster on loan to a training cluster (Lyra, sections 3 and 4)."""
