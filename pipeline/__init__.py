"""The steps that join the packages, and the command line over them."""
