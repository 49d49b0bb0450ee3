"""The rules of the authors' simulators: `--rules lucid-artifact` and the like, found by entry point."""
