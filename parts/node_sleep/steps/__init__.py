"""Sleeping nodes tried on past days: what `lucid nodes replay` does."""
