"""Removes what is past its retention, wherever an installation keeps it."""
