"""The commands that `lucid` finds by entry point when experiments are installed."""
