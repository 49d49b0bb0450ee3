"""A synthetic GPU cluster that looks like the published ones."""
