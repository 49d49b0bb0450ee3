"""The gate that judges a release."""
