"""A log replayed under policies: what `lucid simulate` does."""
