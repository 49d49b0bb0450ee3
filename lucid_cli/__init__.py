"""The command line `lucid`: one file per group of commands."""
