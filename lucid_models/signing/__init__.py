"""Signed statements about releases: what a scheduler believes instead of the registry."""
