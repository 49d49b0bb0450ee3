"""The operators: thin over the packages, which are imported inside `execute` only."""
