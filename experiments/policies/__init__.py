"""Policies measured beside each other, and beside other simulators."""
